# SPDX-License-Identifier: GPL-2.0-or-later
"""Many tasks of one CPU each, on this machine or a cluster, with their results in a shared folder.

A task has a key of all that its result depends on. `store` keeps results by key, `packing` puts
tasks together to elements of a job array, `engine` has missing ones run by a `Submitter`, and
`element` is what a node runs. What a task does is a matter of the rooms above.
"""
