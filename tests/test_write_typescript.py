"""The types of the viewer's page are those of the API's answers."""

from __future__ import annotations

from write_typescript import interfaces


def test_a_chart_has_the_types_that_its_schema_says() -> None:
    """As uPlot takes them: numbers or null for each step, and pairs for the bands."""
    text = "\n".join(interfaces())
    chart = text[
        text.index("export interface Chart {") : text.index("export interface ChartSeries")
    ]
    assert "  bands: ([number, number])[];\n" in chart
    assert "  series: (ChartSeries)[];\n" in chart
    assert "  stacked: boolean;\n" in chart
    assert "  missing: string | null;\n" in chart
    assert "  values: (number | null)[];\n" in text
    assert "  rows: ((Cell)[])[];\n" in text
    assert '  schema: "mrtuner.plan/1";\n' in text
    assert "  story: null | ScreenStory;\n" in text


def test_every_name_is_declared_once() -> None:
    names = [line.split()[2] for line in interfaces() if "export interface" in line]
    assert {"FleetAnswer", "ScreenAnswer", "PlanAnswer", "RecordsAnswer"} <= set(names)
    assert len(names) == len(set(names))
