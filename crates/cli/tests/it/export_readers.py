"""Reads exports of Plimsoll with the libraries of the programs that they are for, and prints what it read as JSON.

foreign-readers FORMAT FILE
"""

import json
import math
import sys


def openmetrics(path):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    with open(path, encoding="utf-8") as text:
        families = list(text_string_to_metric_families(text.read()))
    return {
        family.name: {
            "type": family.type,
            "unit": family.unit,
            "samples": [[sample.name, sample.labels, sample.value] for sample in family.samples],
        }
        for family in families
    }


def otlp(path):
    from google.protobuf import json_format
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    found = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            request = json_format.Parse(line, ExportMetricsServiceRequest())
            for of_resource in request.resource_metrics:
                for metric in of_resource.scope_metrics[0].metrics:
                    data = getattr(metric, metric.WhichOneof("data"))
                    for point in data.data_points:
                        labels = {of.key: of.value.string_value for of in point.attributes}
                        if metric.WhichOneof("data") == "histogram":
                            assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                            assert sum(point.bucket_counts) == point.count
                            value = point.count
                        else:
                            value = getattr(point, point.WhichOneof("value"))
                        found.setdefault(metric.name, []).append([labels, value])
    return found


def hdrhistogram(path):
    from hdrh.histogram import HdrHistogram
    from hdrh.log import HistogramLogReader

    largest = 3600 * 10**9
    sums = {}
    reader = HistogramLogReader(path, HdrHistogram(1, largest, 3))
    while (read := reader.get_next_interval_histogram()) is not None:
        sums.setdefault(read.get_tag(), HdrHistogram(1, largest, 3)).add(read)
    found = {}
    for tag, of in sums.items():
        counts = [
            (of.get_highest_equivalent_value(step.value_iterated_to), step.count_added_in_this_iter_step)
            for step in of.get_recorded_iterator()
        ]
        total = of.get_total_count()

        def at(quantile):
            # The library rounds the rank to the nearest, Plimsoll to the next one, as the Java library does.
            rank, below = max(1, math.ceil(quantile * total)), 0
            for value, count in counts:
                below += count
                if below >= rank:
                    return value

        found[tag] = {"count": total, "p50": at(0.5), "p99": at(0.99), "max": of.get_max_value()}
    return found


def parquet(path):
    import pyarrow.parquet

    table = pyarrow.parquet.ParquetFile(path).read()
    return {
        "types": {field.name: str(field.type) for field in table.schema},
        "rows": [
            {name: str(value) if hasattr(value, "tzinfo") else value for name, value in row.items()}
            for row in table.to_pylist()
        ],
    }


READERS = {"openmetrics": openmetrics, "otlp": otlp, "hdrhistogram": hdrhistogram, "parquet": parquet}

if __name__ == "__main__":
    json.dump(READERS[sys.argv[1]](sys.argv[2]), sys.stdout)
