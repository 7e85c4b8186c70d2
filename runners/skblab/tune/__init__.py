# SPDX-License-Identifier: GPL-2.0-or-later
"""From an experiment to settings that were tried together: `skblab tune`.

choosing    which of the settings that were better alone are set together
deriving    the experiments of both sweeps: all settings, then what was chosen, in fresh boots
script      the shell script that sets what was advised, and puts back what it found
page        the advice as a page, and for sysctl.d and TuneD
"""
