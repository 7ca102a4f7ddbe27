"""
Parts of history by themselves: what the workspace would be without some steps, and which hunks of a plan are wanted.

`three_way` computes the workspace without some steps, `choose` cuts a plan into hunks and keeps the chosen ones. Both make plans
and change nothing; the verbs (`undo`, `revert`, `restore`) are in `engine`.
"""
