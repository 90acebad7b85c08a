"""Every kind of engine that has a file here, by name: the one list that config, detection and docs are made from."""

from sidecar.engines.dynamo import Dynamo
from sidecar.engines.kind import UNKNOWN_KIND, EngineKind
from sidecar.engines.llama_cpp import LlamaCpp
from sidecar.engines.lmdeploy import LMDeploy
from sidecar.engines.ollama import Ollama
from sidecar.engines.probe.state_names import Count
from sidecar.engines.sglang import SGLang
from sidecar.engines.tensorrt_llm import TensorRTLLM
from sidecar.engines.tgi import TGI
from sidecar.engines.triton import Triton
from sidecar.engines.vllm import VLLM


KINDS: dict[str, EngineKind] = {
    kind.name: kind
    for kind in (
        Dynamo(),
        LlamaCpp(),
        LMDeploy(),
        Ollama(),
        SGLang(),
        TensorRTLLM(),
        TGI(),
        Triton(),
        VLLM(),
    )
}


def kind_named(name: str) -> EngineKind:
    """The kind of this name; for "auto" (until it is recognised) and "none" the kind that reports nothing."""
    return KINDS.get(name, UNKNOWN_KIND)


def remarks_on(count: Count) -> str:
    """The engines that count differently, in brackets: " (TensorRT-LLM: in blocks)"; "" if there are none."""
    remarks = [
        f"{kind.title}: {kind.state.remarks[count]}"
        for kind in KINDS.values()
        if kind.state and count in kind.state.remarks
    ]
    return f" ({', '.join(remarks)})" if remarks else ""
