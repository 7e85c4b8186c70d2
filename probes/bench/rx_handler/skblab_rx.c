// SPDX-License-Identifier: GPL-2.0
/*
 * What a receiver in the kernel would cost: an rx_handler, which takes a device's packets before
 * every protocol handler, counts as pktsink --level counters does, and ends them.
 */
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/percpu.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/udp.h>

#define PKTGEN_MAGIC 0xbe9be955

struct header {
	struct iphdr ip;
	struct udphdr udp;
	__be32 magic;
	__be32 number;
};

struct counts {
	u64 seen;
	u64 foreign;
	u64 received;
	u64 bytes;
	u32 highest;
};

static DEFINE_PER_CPU(struct counts, counts);
static struct net_device *device;

static char *name = "s1";
module_param(name, charp, 0400);
MODULE_PARM_DESC(name, "The device, in the namespace of the loading process");

static rx_handler_result_t receive(struct sk_buff **pskb)
{
	struct counts *c = this_cpu_ptr(&counts);
	struct sk_buff *skb = *pskb;
	const struct header *h;
	struct header room;
	u32 number;

	c->seen++;
	h = skb_header_pointer(skb, 0, sizeof(room), &room);
	if (!h || skb->protocol != htons(ETH_P_IP) || h->ip.ihl != 5 ||
	    h->ip.protocol != IPPROTO_UDP || h->magic != htonl(PKTGEN_MAGIC)) {
		c->foreign++;
		return RX_HANDLER_PASS;
	}
	number = ntohl(h->number);
	c->received++;
	c->bytes += skb->len + ETH_HLEN;
	if ((s32)(number - c->highest) > 0)
		c->highest = number;
	consume_skb(skb);
	return RX_HANDLER_CONSUMED;
}

static int __init begin(void)
{
	int err;

	device = dev_get_by_name(current->nsproxy->net_ns, name);
	if (!device)
		return -ENODEV;
	rtnl_lock();
	err = netdev_rx_handler_register(device, receive, NULL);
	rtnl_unlock();
	if (err)
		dev_put(device);
	return err;
}

static void __exit end(void)
{
	struct counts sum = {};
	int cpu;

	rtnl_lock();
	netdev_rx_handler_unregister(device);
	rtnl_unlock();
	dev_put(device);
	for_each_possible_cpu(cpu)
	{
		const struct counts *c = per_cpu_ptr(&counts, cpu);

		sum.seen += c->seen;
		sum.foreign += c->foreign;
		sum.received += c->received;
		sum.bytes += c->bytes;
	}
	pr_info("skblab_rx: received %llu of %llu packets, %llu bytes\n", sum.received, sum.seen,
		sum.bytes);
}

module_init(begin);
module_exit(end);
MODULE_DESCRIPTION("Counts pktgen's packets where a receiver in the kernel would");
MODULE_LICENSE("GPL");
