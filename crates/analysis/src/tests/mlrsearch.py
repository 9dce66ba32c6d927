"""Runs MLRsearch, the reference implementation of RFC 9971, on a system that forwards at most CAPACITY per second.

Prints the relevant bounds, the number of trials and their duration as JSON.
Usage: mlrsearch CAPACITY MIN MAX LOSS_RATIO WIDTH SHORT_S FULL_S
"""

import json
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal


class Measurer(AbstractMeasurer):
    """A system that loses what exceeds its capacity."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.trials = []

    def measure(self, intended_duration, intended_load):
        self.trials.append((intended_load, intended_duration))
        offered = round(intended_load * intended_duration)
        forwarded = min(offered, round(self.capacity * intended_duration))
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=offered,
            forwarding_count=forwarded,
        )


def main():
    capacity, smallest, largest, loss_ratio, width, short_s, full_s = map(float, sys.argv[1:])
    goal = SearchGoal(
        loss_ratio=loss_ratio,
        exceed_ratio=0.0,
        relative_width=width,
        initial_trial_duration=short_s,
        final_trial_duration=full_s,
        duration_sum=full_s,
    )
    # One of the constructor's defaults would be above the largest load.
    config = Config()
    config.min_load, config.max_load = smallest, largest
    config.goals = [goal]
    config.warmup_duration = None
    measurer = Measurer(capacity)
    found = MultipleLossRatioSearch(config=config).search(measurer, debug=lambda text: None)[goal]
    print(json.dumps({
        "lower": float(found.relevant_lower_bound),
        "upper": float(found.relevant_upper_bound),
        "trials": len(measurer.trials),
        "full": sum(1 for _, duration in measurer.trials if duration >= full_s),
        "seconds": sum(duration for _, duration in measurer.trials),
    }))


main()
