"""A page of metrics as the demo scrapes it."""


def page(requests: int, seconds: float, *, lane: str = "rag") -> str:
    """A page on which each request took the same time, a quarter of it in the queue."""
    labels = f'model="m",lane="{lane}",prompt_bucket="0-512"'
    return f"""# HELP llm_requests_total Requests.
# TYPE llm_requests_total counter
llm_requests_total{{{labels},outcome="ok"}} {requests}
llm_requests_total{{{labels},outcome="engine_error"}} 0
# TYPE llm_request_seconds histogram
llm_request_seconds_count{{{labels},streaming="true"}} {requests}
llm_request_seconds_count{{{labels},streaming="false"}} 50
# TYPE llm_request_phase_seconds histogram
llm_request_phase_seconds_sum{{{labels},streaming="true",phase="queue",source="engine"}} {requests * seconds / 4}
llm_request_phase_seconds_sum{{{labels},streaming="true",phase="decode",source="engine"}} {requests * seconds / 2}
llm_request_phase_seconds_sum{{{labels},streaming="true",phase="decode",source="wire"}} {requests * seconds / 4}
llm_request_phase_seconds_sum{{{labels},streaming="false",phase="decode",source="engine"}} 99
# TYPE llm_time_to_first_token_seconds histogram
llm_time_to_first_token_seconds_bucket{{{labels},le="0.1"}} 0
llm_time_to_first_token_seconds_bucket{{{labels},le="0.2"}} {requests}
llm_time_to_first_token_seconds_bucket{{{labels},le="+Inf"}} {requests}
"""
