// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tests of init.c, run in a folder of their own: how it finds its port, what it copies,
 * and what it passes between the host and sshd, which is a script here.
 */
#define CONSOLE	   "console"
#define KERNEL_LOG "log"
#define PORTS	   "ports"
#define DEVICES	   "devices"
#define DRIVER	   "driver"
#define INTERRUPTS "interrupts"
#define LOOKS	   20
#define SSHD	   "./sshd"
#define SSHD_LOG   "sshd.log"
#define main	   init_main
#include "init.c"
#undef main

#define check(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void file(const char *name, const char *text, int mode)
{
	FILE *out = fopen(name, "w");

	check(out && fputs(text, out) >= 0 && !fclose(out) && !chmod(name, mode));
}

static int says(const char *name, const char *text)
{
	char all[16384];
	FILE *in = fopen(name, "r");
	size_t got = in ? fread(all, 1, sizeof(all) - 1, in) : 0;

	if (in)
		fclose(in);
	all[got] = 0;
	return strstr(all, text) != NULL;
}

/* Whether a file has a text within ten seconds: others may have the processors. */
static int soon_says(const char *path, const char *text)
{
	for (int tries = 0; tries < 500 && !says(path, text); tries++)
		usleep(20000);
	return says(path, text);
}

/* On a busy host a guest's sshd once had no device, and ended three times at once. */
static void test_port_that_comes_late(void)
{
	char device[300];
	pid_t kernel;

	check(!mkdir(PORTS "/vport1p0", 0755) && !mkdir(PORTS "/vport1p1", 0755));
	file(DEVICES "/vport1p0", "", 0644);
	file(PORTS "/vport1p0/name", "other\n", 0644);
	check(!look("skblab.ssh", device, sizeof(device)));
	/* A device without a name, then a name without its device. */
	file(DEVICES "/vport1p1", "", 0644);
	check(!look("skblab.ssh", device, sizeof(device)));
	check(!unlink(DEVICES "/vport1p1"));
	file(PORTS "/vport1p1/name", "skblab.ssh\n", 0644);
	check(!look("skblab.ssh", device, sizeof(device)));
	kernel = fork();
	if (!kernel) {
		usleep(300000);
		file(DEVICES "/vport1p1", "", 0644);
		_exit(0);
	}
	find_port("skblab.ssh", device, sizeof(device));
	check(!strcmp(device, DEVICES "/vport1p1"));
	check(!ended(kernel));
}

static void test_port_that_never_comes(void)
{
	char device[300];
	pid_t init;

	check(!mkdir(DRIVER, 0755) && !mkdir(DRIVER "/virtio3", 0755));
	check(!mkdir(PORTS "/vport1p2", 0755));
	file(DRIVER "/unbind", "", 0644);
	file(DRIVER "/bind", "", 0644);
	file(INTERRUPTS, " 24:  7  0  PCI-MSIX-0000:00:02.0  1-edge  virtio0-virtqueues\n", 0644);
	init = fork();
	if (!init) {
		find_port("skblab.none", device, sizeof(device));
		_exit(0);
	}
	check(ended(init) == 1);
	check(says(KERNEL_LOG, "<3>skblab-init: there is no virtio port skblab.none\n"));
	check(says(CONSOLE, "skblab-init: failed: virtio port skblab.none"));
	check(says(KERNEL_LOG,
		   "<5>skblab-init: no virtio port skblab.none yet: its driver asks again\n"));
	/* What there is instead, for whoever looks for the cause. */
	check(says(KERNEL_LOG, "port vport1p1: name \"skblab.ssh\", with its device\n"));
	check(says(KERNEL_LOG, "port vport1p2: name \"\", no device\n"));
	check(says(KERNEL_LOG, "3 virtio ports in ports\n"));
	check(says(KERNEL_LOG, "1-edge  virtio0-virtqueues\n"));
	check(says(DRIVER "/unbind", "virtio3") && says(DRIVER "/bind", "virtio3"));
}

/* Have init serve what is behind the port; `host` is our end. */
static pid_t served(const char *sshd, int *host, int *port)
{
	int ends[2];
	pid_t init;

	file(SSHD, sshd, 0755);
	file(KERNEL_LOG, "", 0644);
	check(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	*host = ends[0];
	*port = ends[1];
	check(!fcntl(*port, F_SETFL, O_NONBLOCK));
	init = fork();
	if (!init) {
		close(*host);
		serve(*port);
		_exit(0);
	}
	close(*port);
	return init;
}

static void test_all_bytes_pass(void)
{
	static char sent[300000], back[sizeof(sent)];
	size_t had = 0;
	int host, port;
	pid_t init, writer;
	ssize_t got;

	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = i * 7 + i / 251;
	init = served("#!/bin/sh\necho Accepted >&2\nexec cat\n", &host, &port);
	/* More than any buffer on the way has room for, before anything is read. */
	writer = fork();
	if (!writer) {
		check(!send_all(host, sent, sizeof(sent)));
		_exit(0);
	}
	usleep(200000);
	while (had < sizeof(back) && (got = read(host, back + had, sizeof(back) - had)) > 0)
		had += got;
	check(had == sizeof(sent) && !memcmp(sent, back, had));
	check(!ended(writer));
	check(!shutdown(host, SHUT_WR));
	check(read(host, back, 1) == 0);
	check(!ended(init));
	check(says(KERNEL_LOG, "sshd ended (exit 0): Accepted\n"));
	close(host);
}

/* One that nobody has logged in to starts again, and has nothing of what was for the first. */
static void test_a_second_sshd(void)
{
	char line[64] = "";
	int host, port;
	pid_t init;

	init = served("#!/bin/sh\n"
		      "if mkdir first 2>/dev/null; then echo Bad length >&2; exit 255; fi\n"
		      "echo Accepted >&2; echo second; cat >rest\n",
		      &host, &port);
	check(!send_all(host, "for the first\n", 14));
	check(soon_says(KERNEL_LOG, "sshd ended (exit 255): Bad length\n"));
	check(!says(KERNEL_LOG, "sshd starts again\n"));
	check(!shutdown(host, SHUT_WR));
	check(read(host, line, sizeof(line) - 1) == 7 && !strcmp(line, "second\n"));
	check(!ended(init));
	check(says(KERNEL_LOG, "sshd starts again\n") && !says("rest", "first"));
	close(host);
}

static void test_three_times(void)
{
	int host, port, count = 0;
	pid_t init;
	char line[200];
	FILE *log;

	init = served("#!/bin/sh\nexit 7\n", &host, &port);
	check(!shutdown(host, SHUT_WR));
	check(!ended(init));
	log = fopen(KERNEL_LOG, "r");
	while (log && fgets(line, sizeof(line), log))
		count += !!strstr(line, "sshd ended (exit 7): it said nothing\n");
	check(count == 3);
	fclose(log);
	close(host);
}

/* Also what is longer than one sendfile(), modes of folders, and links to nowhere. */
static void test_files_are_taken_in(void)
{
	static char text[300000];
	struct stat about;
	char link[16] = "";

	for (size_t i = 0; i + 1 < sizeof(text); i++)
		text[i] = 'a' + (i * 7 + i / 251) % 26;
	check(!mkdir("root", 0755) && !mkdir("root/usr", 0755) && !mkdir("root/usr/bin", 0711));
	check(!symlink("usr/bin", "root/bin") && !symlink("../nowhere", "root/usr/link"));
	file("root/usr/bin/one", text, 04751);
	file("root/usr/bin/other", "not listed", 0755);
	file("list", "bin\nusr/bin/one\nusr/link\n", 0644);
	check(!mkdir("taken", 0755));
	taken_in("list", "root", "taken");
	check(!system("cmp root/usr/bin/one taken/usr/bin/one"));
	check(!stat("taken/usr/bin/one", &about) && (about.st_mode & 07777) == 04751);
	check(!stat("taken/usr/bin", &about) && (about.st_mode & 07777) == 0711);
	check(readlink("taken/bin", link, sizeof(link) - 1) == 7 && !strcmp(link, "usr/bin"));
	check(readlink("taken/usr/link", link, sizeof(link)) == 10);
	check(access("taken/usr/bin/other", F_OK));
}

static void test_what_is_not_there_is_no_file(void)
{
	pid_t init = fork();

	if (!init) {
		file("list", "usr/none\n", 0644);
		taken_in("list", "root", "taken");
		_exit(0);
	}
	check(ended(init) == 1);
	check(says(CONSOLE, "skblab-init: failed: copying the link root/usr/none: No such file"));
}

int main(void)
{
	check(!mkdir(PORTS, 0755) && !mkdir(DEVICES, 0755));
	file(CONSOLE, "", 0644);
	file(KERNEL_LOG, "", 0644);
	signal(SIGPIPE, SIG_IGN);
	test_port_that_comes_late();
	test_port_that_never_comes();
	test_all_bytes_pass();
	test_a_second_sshd();
	test_three_times();
	test_files_are_taken_in();
	test_what_is_not_there_is_no_file();
	return 0;
}
