# SPDX-License-Identifier: GPL-2.0-or-later
"""From an experiment to settings that were tried together: `skblab tune`.

asked       for what, where, and in which time
stages      its sweeps by name, and the request that each of them is
ahead       what they would be, before any is made; dryrun says it
state       how far it has come, in its folder
sweeping    one of its sweeps, begun or gone on with
conduct     the sweeps one after the other
choosing    which settings can be set together
adding      what each of them adds to the others
deriving    the experiments of the sweeps: all settings, all but each, what was chosen
judging     what was good, and what held when it was measured again
timing      what its sweeps get of the time
telling     what is written down, and as which files
script      the shell script that sets what was advised, and puts back what it found
page        the advice as a page, and for sysctl.d and TuneD
"""
