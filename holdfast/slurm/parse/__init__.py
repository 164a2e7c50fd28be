"""Parse the output of Slurm's commands. Pure.

Facts, seen on Slurm 24.11.5 and 26.05.5 (tests/data/slurm has recordings of both):

* A number in JSON is ``{"set": …, "infinite": …, "number": …}`` or plain, by release and field.
* Free text (reason, comment, extra, job name) may contain anything, including newlines and text that
  looks like another field or record. A text record that can be read in two ways is reported as ambiguous,
  never guessed: the caller queries that node again as JSON, which is unambiguous.
* With ``SLURM_TIME_FORMAT=%s`` every time in text output is in epoch seconds.
"""
