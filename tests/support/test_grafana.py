"""The server in Grafana's place tells a dashboard that it has from one that it has not."""

from tests.support.grafana import DASHBOARDS, grafana, has_dashboard


def test_a_link_to_a_shipped_dashboard_is_right_and_one_to_another_name_is_not() -> None:
    with grafana() as url:
        shipped = [has_dashboard(f"{url}/d/{uid}/?var-lane=chat") for uid in DASHBOARDS]
        strange = [has_dashboard(f"{url}{path}") for path in ("/d/llm-nothing/", "/", "/explore?d=/d/x")]

    assert shipped
    assert all(shipped)
    assert not any(strange)
