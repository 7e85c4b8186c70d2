/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Network namespaces made by `ip netns`, and the devices in them. */
#ifndef SKBLAB_NETNS_H
#define SKBLAB_NETNS_H

/* Returns the namespace that this process was in, for leave_netns(), or -1. */
int enter_netns(const char *netns);
int leave_netns(int here);
/* Say why it cannot be entered; EXIT_BAD. */
int fail_netns(const char *option, const char *netns);
/* By name or index; 0 if there is no such device in this namespace. */
int index_of_device(const char *device);

#endif /* SKBLAB_NETNS_H */
