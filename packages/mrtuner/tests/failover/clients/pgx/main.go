// pgx with the generated pool.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sys/unix"
)

func configured(use func(*pgxpool.Config)) error {
	// SNIPPET
	use(config)
	return nil
}

func open() *pgxpool.Pool {
	var config *pgxpool.Config
	err := configured(func(made *pgxpool.Config) { config = made })
	if err != nil {
		panic(err)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		panic(err)
	}
	return pool
}

// Every Acquire has the deadline that a comment of the snippet gives, and so has every query if a
// comment gives one.
func acquire(pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), acquireWithin)
	defer cancel()
	return pool.Acquire(ctx)
}

func ask(conn *pgxpool.Conn, query string) error {
	ctx, cancel := context.Background(), func() {}
	if queryWithin > 0 {
		ctx, cancel = context.WithTimeout(ctx, queryWithin)
	}
	defer cancel()
	_, err := conn.Exec(ctx, query)
	return err
}

func take(pool *pgxpool.Pool) error {
	conn, err := acquire(pool)
	if err != nil {
		return err
	}
	defer conn.Release()
	return ask(conn, "SELECT 1")
}

func main() {
	pool := open()
	var conns []*pgxpool.Conn
	for range 4 {
		conn, err := acquire(pool)
		if err != nil {
			panic(err)
		}
		if err := ask(conn, "SELECT 1"); err != nil {
			panic(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns[1:] {
		conn.Release()
	}
	time.Sleep(1200 * time.Millisecond) // pgx pings connections that were idle for a second
	cases := map[string]func() error{
		"connect": func() error { return take(open()) },
		"idle":    func() error { return take(pool) },
		"flight":  func() error { return ask(conns[0], "SELECT pg_sleep(60)") },
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		go tell(lines.Text(), cases[lines.Text()])
	}
}

func tell(name string, run func() error) {
	if err := run(); err != nil {
		fmt.Printf("%s failed %v\n", name, err)
		return
	}
	fmt.Println(name, "answered")
}
