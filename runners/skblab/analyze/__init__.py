# SPDX-License-Identifier: GPL-2.0-or-later
"""`skblab analyze`: figures of single packets, by the program of analysis/pktstat."""
