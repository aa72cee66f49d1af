"""What an agent's metrics say of a container, added up over its cards."""

from gpupool.kubernetes.plugin.using import ContainerUsage, parse_metrics

LABELS = 'namespace="team",pod="a",container="main",tenant="t",gpu="{}"'


def test_a_containers_cards_are_added_up_and_what_is_not_told_is_unknown() -> None:
    text = "\n".join(
        [
            "# TYPE gpupool_container_memory_used_bytes gauge",
            *(
                f"gpupool_container_memory_used_bytes{{{LABELS.format(card)}}} 2.147483648e+09"
                for card in (0, 1)
            ),
            'gpupool_container_memory_used_bytes{namespace="team",pod="whole",container="main",gpu="2"} 5',
            "# TYPE gpupool_container_gpu_seconds_total counter",
            *(
                f"gpupool_container_gpu_seconds_total{{{LABELS.format(card)}}} 1.5"
                for card in (0, 1)
            ),
            "",
        ]
    )
    assert parse_metrics(text) == {
        ("team", "a", "main"): ContainerUsage(4 << 30, 3.0),
        ("team", "whole", "main"): ContainerUsage(5, None),
    }
