// Command operators reads a YAML manifest on standard input as kubectl does, then into the operator's
// own Go type, refusing unknown fields and wrong types; it writes what was understood as JSON. It
// does the same with Kubernetes' own kinds of examples/record/kubernetes.yaml.
// With -fixed it lists the parameters that CloudNativePG does not let users set; with -schema it
// writes the schema that Zalando's operator registers.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	cnpg "github.com/cloudnative-pg/cloudnative-pg/api/v1"
	"github.com/cloudnative-pg/cloudnative-pg/pkg/postgres"
	zalando "github.com/zalando/postgres-operator/pkg/apis/acid.zalan.do/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

type understood struct {
	Parameters map[string]string `json:"parameters"`
	Libraries  []string          `json:"libraries"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		return check(os.Stdin)
	}
	switch arguments[0] {
	case "-fixed":
		return write(postgres.FixedConfigurationParameters)
	case "-schema":
		return write(zalando.PostgresCRDResourceValidation.OpenAPIV3Schema)
	}
	return fmt.Errorf("unknown argument %q", arguments[0])
}

func check(input io.Reader) error {
	text, err := io.ReadAll(input)
	if err != nil {
		return err
	}
	manifest, err := yaml.YAMLToJSONStrict(text) // types as the YAML has them
	if err != nil {
		return err
	}
	var kind struct{ Kind string }
	if err := json.Unmarshal(manifest, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case cnpg.ClusterKind:
		var cluster cnpg.Cluster
		if err := strictly(manifest, &cluster); err != nil {
			return err
		}
		postgresql := cluster.Spec.PostgresConfiguration
		return write(understood{postgresql.Parameters, postgresql.AdditionalLibraries})
	case zalando.PostgresCRDResourceKind:
		// the type's own UnmarshalJSON is not strict, so the part that we write is read separately
		var document struct {
			APIVersion, Kind string
			Spec             struct{ PostgreSQL zalando.PostgresqlParam }
		}
		if err := strictly(manifest, &document); err != nil {
			return err
		}
		return write(understood{document.Spec.PostgreSQL.Parameters, nil})
	case "StatefulSet":
		return echo(manifest, &apps.StatefulSet{})
	case "Service":
		return echo(manifest, &core.Service{})
	case "ConfigMap":
		return echo(manifest, &core.ConfigMap{})
	}
	return fmt.Errorf("unknown kind %q", kind.Kind)
}

func echo(manifest []byte, target any) error {
	if err := strictly(manifest, target); err != nil {
		return err
	}
	return write(target)
}

func strictly(manifest []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(manifest))
	decoder.DisallowUnknownFields()
	return decoder.Decode(target)
}

func write(value any) error {
	return json.NewEncoder(os.Stdout).Encode(value)
}
