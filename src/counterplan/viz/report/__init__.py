"""The report of a cohort run: one HTML file that can be opened, searched, printed and sent.

build       the whole page, for a run of explanations or of executed plans
names       how cases are called: by their ids, or by pseudonyms
source      a run opened for its report: model, question, words
totals      what all cases come to
ranking     the table of cases that can be searched and sorted
summary     the first section
closely     a section for each case looked at closely, with `courses` in figures
model       the model's fit and its assumptions
reading     how to read the page, and what it does not claim
regret_*    the same for executed plans of planning problems
"""
