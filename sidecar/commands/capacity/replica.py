"""One replica as described by the inputs: model, cache, GPUs, each number with its origin.

It decides which source is used: flags first, then the engine, then the tables. It computes only properties of a replica
(its cache, its bandwidth); the answers are in `answers.py`.
"""

from pathlib import Path

from sidecar.commands.capacity import model_config
from sidecar.commands.capacity.answer import Fact, Origin, RefusedError
from sidecar.commands.capacity.bandwidth import Decode
from sidecar.commands.capacity.engine_cache import CACHE_INFO, Cache
from sidecar.commands.capacity.flags import Asked, UsageError
from sidecar.commands.capacity.geometry import Geometry, attention
from sidecar.commands.capacity.gpus import GPUS
from sidecar.commands.capacity.memory import Room, left_for_cache, room_of_blocks
from sidecar.commands.capacity.model_config import Model
from sidecar.commands.capacity.models import KNOWN_MODELS
from sidecar.commands.capacity.units import say_bytes


UTILISATION = 0.9
"""Default of vLLM's --gpu-memory-utilization up to vLLM 0.2x; 0.92 in newer ones. Used only if no reserve is stated."""


class Replica:
    """Raises UsageError for a file that is no model config, RefusedError for a model that is not modelled here."""

    def __init__(self, asked: Asked, cache: Cache | None = None, longest: int | None = None) -> None:
        """`cache` and `longest` are the engine's own statements; None if no engine was asked or it states none."""
        self._asked = asked
        self.facts: dict[str, Fact] = {}
        self.blocks = cache.blocks if cache is not None else None
        self.model = self._model()
        self.gpus = self._count("gpu.count", 1)
        self.geometry = self._geometry(cache)
        self.longest = longest or self.model.longest
        """Largest possible context in tokens; None: stated neither by the engine nor by the model's config."""
        if longest:
            self._fact("max_model_len", longest, f"{longest:,} tokens", Origin.MEASURED, "the engine's /v1/models")
        elif self.model.longest:
            said = f"{self.model.longest:,} tokens"
            self._fact("max_position_embeddings", self.model.longest, said, *self._model_origin)
        if cache is not None:
            self._fact("num_gpu_blocks", cache.blocks, f"{cache.blocks:,}", Origin.MEASURED, CACHE_INFO)

    def room(self) -> Room:
        """The replica's KV cache. Raises RefusedError if its size is not known, or nothing is left for it."""
        if self.blocks is not None and not self._asked.has("gpu.memory", "gpu.reserve"):
            return room_of_blocks(self.blocks, self.geometry)
        memory = self._gpu("memory", "--gpu.memory")
        weights = self._weights()
        reserve = self._asked.number("gpu.reserve")
        utilisation = self._asked.number("gpu.utilisation")
        if utilisation is not None:
            self._fact("utilisation", utilisation, f"{utilisation:.0%}", Origin.GIVEN, "--gpu.utilisation")
        else:
            utilisation = UTILISATION if reserve is None else 1.0
            source = "no reserve is stated" if reserve is None else "a reserve is stated"
            self._fact("utilisation", utilisation, f"{utilisation:.0%}", Origin.ASSUMED, source)
        if reserve is not None:
            self._fact("reserve_bytes", reserve, say_bytes(reserve), Origin.GIVEN, "--gpu.reserve")
        left = left_for_cache(memory * self.gpus, utilisation, weights, reserve or 0.0)
        self._fact("cache_bytes", left, say_bytes(left), Origin.DERIVED)
        return Room(self.geometry, left)

    def decode(self) -> Decode:
        """The replica's memory bandwidth and the weights read per step. Raises RefusedError if either is not known."""
        speed = self._gpu("bandwidth", "--gpu.bandwidth")
        efficiency = self._asked.number("gpu.efficiency")
        if efficiency is not None:
            self._fact("efficiency", efficiency, f"{efficiency:.0%}", Origin.GIVEN, "--gpu.efficiency")
        read = self._asked.number("model.active-weights")
        known = KNOWN_MODELS.get(self._asked.word("model") or "")
        if read is not None:
            self._fact("active_weights_bytes", read, say_bytes(read), Origin.GIVEN, "--model.active-weights")
        elif known is not None and known.active_weights_bytes:
            read = known.active_weights_bytes
            self._fact("active_weights_bytes", read, say_bytes(read), Origin.LOOKED_UP, known.weights_source)
        else:
            read = self._weights()
        return Decode(read, speed * self.gpus * (efficiency or 1.0), self.geometry)

    def _model(self) -> Model:
        asked = self._asked
        name, file = asked.word("model"), asked.word("model.config")
        if name is not None:
            known = KNOWN_MODELS[name]
            self._model_origin = (Origin.LOOKED_UP, f"config.json of {known.repository}")
            return model_config.read(known.config)
        if file is not None:
            self._model_origin = (Origin.GIVEN, file)
            try:
                return model_config.load(Path(file))
            except ValueError as error:
                raise UsageError(f"--model.config={file!r} {error}") from None
        layers, heads, head_dim = (asked.count(f"model.{part}") for part in ("layers", "kv-heads", "head-dim"))
        if layers is None or heads is None or head_dim is None:
            raise RefusedError(
                "no model is given: --model, --model.config, or --model.layers with --model.kv-heads and --model.head-dim"
            )
        self._model_origin = (Origin.GIVEN, "--model.layers, --model.kv-heads, --model.head-dim")
        return Model((attention(layers, heads, head_dim),), None, None, asked.count("model.query-heads"), head_dim)

    def _geometry(self, cache: Cache | None) -> Geometry:
        bits = self._asked.word("kv.bits")
        if bits is not None:
            width, origin, source = float(bits), Origin.GIVEN, "--kv.bits"
        elif cache is not None and cache.bits is not None:
            width, origin, source = float(cache.bits), Origin.MEASURED, CACHE_INFO
        elif self.model.bits is not None:
            width, origin, source = float(self.model.bits), self._model_origin[0], "the model's own type"
        else:
            width, origin, source = 16.0, Origin.ASSUMED, "a cache in 16 bits"
        self._fact("kv_bits", width, f"{width:.0f} bits", origin, source)
        if cache is not None and not self._asked.has("kv.block-size"):
            block = cache.block_size
            self._fact("block_size", block, f"{block} tokens", Origin.MEASURED, CACHE_INFO)
        else:
            block = self._count("kv.block-size", 16)
        for group in self.model.layers:
            kept = "every token" if group.window is None else f"each of the last {group.window:,} tokens"
            said = f"{group.count} layers that keep {group.elements:,} numbers for {kept}"
            self._fact(f"layers_{group.window or 'all'}", group.count, said, *self._model_origin)
        return Geometry(self.model.layers, width, block, self.gpus)

    def _weights(self) -> float:
        given = self._asked.number("model.weights")
        known = KNOWN_MODELS.get(self._asked.word("model") or "")
        if given is not None:
            weights, origin, source = given, Origin.GIVEN, "--model.weights"
        elif self.model.weights_bytes is not None:
            weights, origin, source = self.model.weights_bytes, Origin.DERIVED, self.model.weights_source
        elif known is not None and known.weights_bytes is not None:
            weights, origin, source = known.weights_bytes, Origin.LOOKED_UP, known.weights_source
        else:
            raise RefusedError(
                "the size of the weights is not known: give --model.weights, such as --model.weights=140GB"
            )
        self._fact("weights_bytes", weights, say_bytes(weights), origin, source)
        return weights

    def _gpu(self, what: str, flag: str) -> float:
        """The memory or the bandwidth of one GPU. Raises RefusedError if it is not known."""
        given, name = self._asked.number(f"gpu.{what}"), self._asked.word("gpu")
        unit = "/s" if what == "bandwidth" else ""
        if given is not None:
            self._fact(f"gpu_{what}", given, f"{say_bytes(given)}{unit} each", Origin.GIVEN, flag)
            return given
        if name is None:
            raise RefusedError(f"the {what} of the GPU is not known: give --gpu, or {flag}")
        gpu = GPUS[name]
        value = gpu.memory_bytes if what == "memory" else gpu.bytes_per_second
        self._fact(f"gpu_{what}", value, f"{say_bytes(value)}{unit} each", Origin.LOOKED_UP, gpu.source)
        return value

    def _count(self, name: str, default: int) -> int:
        given = self._asked.count(name)
        value = given or default
        origin = Origin.ASSUMED if given is None else Origin.GIVEN
        self._fact(name.replace(".", "_").replace("-", "_"), value, f"{value}", origin, f"--{name}")
        return value

    def _fact(self, name: str, value: float, said: str, origin: Origin, source: str = "") -> None:
        self.facts[name] = Fact(name, value, said, origin, source)
