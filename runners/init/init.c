// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The first process of a guest, once the folder that its parent made for it is
 * mounted: a writable view over the read-only root, the usual file systems, then
 * one sshd on a virtio port. When that connection ends, so does the guest.
 *   usage: init [hold] POINT:ro|rw ...
 * POINTs are the 9p shares to mount, at /skblab/POINT.
 *
 * With "hold", QEMU can write the guest to a file before it does all that: it lets
 * go of every file of the host's, because QEMU writes no guest that has a 9p file
 * system mounted, and waits for a line on another port, "SEED [SECONDS]". What goes
 * on from that file has random numbers of its own by the seed, and the time of day,
 * and in its memory the files of the root that /skblab/run/files lists.
 *
 * A program and not a script: under emulation each program that a script starts
 * takes a tenth of a second.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NINE_P "trans=virtio,version=9p2000.L,msize=262144"
/* Nobody else changes what is read-only: the guest may cache all of it. */
#define CACHED NINE_P ",cache=loose"

/* test_init.c has others. */
#ifndef PORTS
#define CONSOLE	   "/dev/ttyS0"
#define KERNEL_LOG "/dev/kmsg"
#define PORTS	   "/sys/class/virtio-ports"
#define DEVICES	   "/dev"
#define DRIVER	   "/sys/bus/virtio/drivers/virtio_console"
#define INTERRUPTS "/proc/interrupts"
#define LOOKS	   600
#define SSHD	   "/usr/sbin/sshd"
#define SSHD_LOG   "/run/sshd.log"
#endif

/* A failing step must not be silent: process 1 going away is a panic, and this its cause. */
__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
	int error = errno, console = open(CONSOLE, O_WRONLY);
	va_list arguments;

	if (console < 0)
		console = STDERR_FILENO;
	dprintf(console, "skblab-init: failed: ");
	va_start(arguments, format);
	vdprintf(console, format, arguments);
	va_end(arguments);
	dprintf(console, ": %s\n", strerror(error));
	exit(1);
}

/* By the kernel's log, which the console has before the power goes; levels are syslog's. */
__attribute__((format(printf, 2, 3))) static void log_line(int level, const char *format, ...)
{
	char text[700], line[800];
	va_list arguments;
	int log;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	/* Without its newline the kernel waits for the rest of the line. */
	snprintf(line, sizeof(line), "<%d>skblab-init: %s\n", level, text);
	log = open(KERNEL_LOG, O_WRONLY | O_APPEND);
	if (log < 0 || write(log, line, strlen(line)) < 0)
		fail(KERNEL_LOG);
	close(log);
}

static void mounted(const char *what, const char *where, const char *type, unsigned long flags,
		    const char *options)
{
	if (mount(what, where, type, flags, options))
		fail("mounting %s on %s", what, where);
}

static void moved(const char *from, const char *to)
{
	if (mount(from, to, NULL, MS_MOVE, NULL))
		fail("moving %s to %s", from, to);
}

static void unmounted(const char *where, int flags)
{
	if (umount2(where, flags))
		fail("unmounting %s", where);
}

static void folder(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		fail("making %s", path);
}

static void entered(const char *path)
{
	if (chdir(path))
		fail("entering %s", path);
}

/* Have the current folder as root, with the old root at `old` inside it. */
static void pivoted(const char *old)
{
	if (syscall(SYS_pivot_root, ".", old) || chroot("."))
		fail("pivot_root");
	entered("/");
}

static void file_systems(void)
{
	struct stat root, devices;

	mounted("proc", "/proc", "proc", 0, NULL);
	mounted("sysfs", "/sys", "sysfs", 0, NULL);
	if (stat("/", &root) || stat("/dev", &devices))
		fail("/dev");
	if (root.st_dev == devices.st_dev)
		mounted("devtmpfs", "/dev", "devtmpfs", 0, NULL);
}

static void console(void)
{
	int in = open("/dev/null", O_RDONLY), out = open(CONSOLE, O_WRONLY | O_NOCTTY);

	if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		fail(CONSOLE);
	if (in > 2)
		close(in);
	if (out > 2)
		close(out);
}

static void one_line_of(const char *file, char *line, int size)
{
	int fd = open(file, O_RDONLY);
	ssize_t got = fd < 0 ? -1 : read(fd, line, size - 1);

	line[got > 0 ? got : 0] = 0;
	line[strcspn(line, "\n")] = 0;
	if (fd >= 0)
		close(fd);
}

static void name_of(const char *port, char *name, int size)
{
	char file[sizeof(PORTS) + NAME_MAX + sizeof("//name")];

	snprintf(file, sizeof(file), "%s/%s/name", PORTS, port);
	one_line_of(file, name, size);
}

static int look(const char *wanted, char *device, int size)
{
	DIR *ports = opendir(PORTS);
	struct dirent *one;
	int found = 0;

	while (ports && !found && (one = readdir(ports))) {
		char name[64];

		name_of(one->d_name, name, sizeof(name));
		snprintf(device, size, "%s/%s", DEVICES, one->d_name);
		found = !strcmp(name, wanted) && !access(device, F_OK);
	}
	if (ports)
		closedir(ports);
	return found;
}

static void told(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);

	/* It is tried, and what comes of it is looked at. */
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		log_line(5, "writing %s to %s: %s", text, file, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* Have the driver ask QEMU for its ports again: once, in a thousand boots, it was told of none. */
static void ask_again(const char *wanted)
{
	DIR *devices = opendir(DRIVER);
	struct dirent *one;

	log_line(5, "no virtio port %s yet: its driver asks again", wanted);
	while (devices && (one = readdir(devices)))
		if (!strncmp(one->d_name, "virtio", strlen("virtio"))) {
			told(DRIVER "/unbind", one->d_name);
			told(DRIVER "/bind", one->d_name);
		}
	if (devices)
		closedir(devices);
}

/* What there is in place of the port: each port's name and device, and what came from QEMU. */
static void log_ports(void)
{
	DIR *ports = opendir(PORTS);
	FILE *interrupts = fopen(INTERRUPTS, "r");
	struct dirent *one;
	char line[400];
	int count = 0;

	while (ports && (one = readdir(ports))) {
		char device[sizeof(DEVICES) + NAME_MAX + sizeof("/")], name[64];

		if (one->d_name[0] == '.')
			continue;
		count++;
		name_of(one->d_name, name, sizeof(name));
		snprintf(device, sizeof(device), "%s/%s", DEVICES, one->d_name);
		log_line(5, "port %s: name \"%s\", %s device", one->d_name, name,
			 access(device, F_OK) ? "no" : "with its");
	}
	log_line(5, "%d virtio ports in %s", count, PORTS);
	while (interrupts && fgets(line, sizeof(line), interrupts)) {
		line[strcspn(line, "\n")] = 0;
		if (strstr(line, "virtio"))
			log_line(5, "interrupts: %s", line);
	}
	if (ports)
		closedir(ports);
	if (interrupts)
		fclose(interrupts);
}

/*
 * The kernel makes the port, its name and its device when QEMU has told it, which
 * may be later than this where the host is busy.
 */
static void find_port(const char *wanted, char *device, int size)
{
	for (int looks = 0; !look(wanted, device, size); looks++) {
		if (looks == LOOKS) {
			log_ports();
			log_line(3, "there is no virtio port %s", wanted);
			errno = ENODEV;
			fail("virtio port %s", wanted);
		}
		if (looks && looks % (LOOKS / 4) == 0) {
			log_ports();
			ask_again(wanted);
		}
		usleep(100000);
	}
}

static void copied(const char *file, const char *to)
{
	int in = open(file, O_RDONLY), out = -1;
	struct stat about;
	off_t at = 0;

	if (in >= 0 && !fstat(in, &about))
		out = open(to, O_WRONLY | O_CREAT | O_EXCL, about.st_mode & 07777);
	if (out < 0 || fchmod(out, about.st_mode & 07777))
		fail("copying %s to %s", file, to);
	while (at < about.st_size)
		if (sendfile(out, in, &at, about.st_size - at) <= 0)
			fail("copying %s to %s", file, to);
	close(in);
	close(out);
}

/* A folder in the upper layer is what the root has there, with another's mode: it needs the same. */
static void folders_of(const char *from, char *path, const char *to)
{
	char source[600], target[600];

	for (char *slash = path; (slash = strchr(slash, '/')); slash++) {
		struct stat about;

		*slash = 0;
		snprintf(source, sizeof(source), "%s/%s", from, path);
		snprintf(target, sizeof(target), "%s/%s", to, path);
		if (stat(source, &about))
			fail("%s", source);
		if (mkdir(target, 0700) ? errno != EEXIST : chmod(target, about.st_mode & 07777))
			fail("making %s", target);
		*slash = '/';
	}
}

/*
 * Copy what is listed, a path in each line, from one tree into another: each program
 * that a guest starts asks the host for it and its libraries by 9p, and these do not.
 */
static void taken_in(const char *list, const char *from, const char *to)
{
	char path[256], source[600], target[600], link[256];
	FILE *in = fopen(list, "r");

	if (!in)
		fail("%s", list);
	while (fgets(path, sizeof(path), in)) {
		ssize_t length;

		path[strcspn(path, "\n")] = 0;
		folders_of(from, path, to);
		snprintf(source, sizeof(source), "%s/%s", from, path);
		snprintf(target, sizeof(target), "%s/%s", to, path);
		length = readlink(source, link, sizeof(link) - 1);
		if (length < 0 && errno == EINVAL) {
			copied(source, target);
			continue;
		}
		link[length < 0 ? 0 : length] = 0;
		if (length < 0 || symlink(link, target))
			fail("copying the link %s", source);
	}
	fclose(in);
}

/* The file system that all the guest's own files are in. */
static void upper_layer(const char *at)
{
	mounted("tmpfs", at, "tmpfs", 0, NULL);
	entered(at);
	folder("upper");
	folder("work");
	folder("root");
	entered("/");
}

/* Leave the root for one in memory, of this program and the upper layer, and go on there. */
__attribute__((noreturn)) static void hold(char **arguments)
{
	static const char *const trees[] = { "/dev", "/proc", "/sys" };

	mounted("tmpfs", "/tmp", "tmpfs", 0, NULL);
	folder("/tmp/upper");
	upper_layer("/tmp/upper");
	taken_in("/skblab/run/files", "", "/tmp/upper/upper");
	entered("/tmp");
	folder("old");
	folder("root");
	for (int i = 0; i < 3; i++) {
		folder(trees[i] + 1);
		moved(trees[i], trees[i] + 1);
	}
	/* /proc is in the new root now. */
	pivoted("old");
	copied("/proc/self/exe", "/init");
	arguments[1] = "held";
	execv("/init", arguments);
	fail("starting this program anew");
}

/* random(4): what all guests of one file have in common is worth nothing to any of them. */
static void own_random_numbers(const char *seed)
{
	struct {
		struct rand_pool_info about;
		unsigned char bytes[32];
	} given;
	int device = open("/dev/random", O_WRONLY);

	for (unsigned int i = 0; i < sizeof(given.bytes); i++)
		if (sscanf(seed + 2 * i, "%2hhx", &given.bytes[i]) != 1)
			fail("the seed \"%s\" is not one of %zu bytes", seed, sizeof(given.bytes));
	given.about.entropy_count = 8 * sizeof(given.bytes);
	given.about.buf_size = sizeof(given.bytes);
	if (device < 0 || ioctl(device, RNDADDENTROPY, &given) || ioctl(device, RNDRESEEDCRNG))
		fail("/dev/random");
	close(device);
}

/* Wait for the word, without any file of the host's; then have the root again. */
static void held(void)
{
	char port[300], line[128] = "", seed[80] = "";
	struct timespec now = {};
	double seconds = 0;
	int device;

	unmounted("/old/skblab/run", 0);
	unmounted("/old", 0);
	find_port("skblab.go", port, sizeof(port));
	device = open(port, O_RDWR);
	if (device < 0 || write(device, "waits\n", 6) != 6 ||
	    read(device, line, sizeof(line) - 1) <= 0)
		fail("%s", port);
	close(device);
	sscanf(line, "%79s %lf", seed, &seconds);
	own_random_numbers(seed);
	now.tv_sec = seconds;
	now.tv_nsec = (seconds - now.tv_sec) * 1e9;
	if (now.tv_sec && clock_settime(CLOCK_REALTIME, &now))
		fail("setting the time of day");

	mounted("root", "/root", "9p", MS_RDONLY, CACHED);
	mounted("run", "/root/skblab/run", "9p", 0, NINE_P);
	unmounted("/proc", 0);
	unmounted("/sys", 0);
	moved("/dev", "/root/dev");
	moved("/upper", "/root/tmp");
	if (unlink("/init"))
		fail("removing /init");
	entered("/root");
	moved(".", "/");
	if (chroot("."))
		fail("chroot");
	file_systems();
}

static void share(const char *listed)
{
	char point[64], target[128];
	size_t length = strcspn(listed, ":");
	int writable = !strcmp(listed + length, ":rw");

	snprintf(point, sizeof(point), "%.*s", (int)length, listed);
	snprintf(target, sizeof(target), "/tmp/root/skblab/%s", point);
	if (!strcmp(point, "run"))
		mounted("/skblab/run", target, NULL, MS_BIND, NULL);
	else if (writable)
		/* What the guest may write goes to the host at once. */
		mounted(point, target, "9p", 0, NINE_P);
	else
		mounted(point, target, "9p", MS_RDONLY, CACHED);
}

/* Have a root where all can be written, in memory, at /tmp: it is gone with the guest. */
static void writable_root(char **shares)
{
	mounted("overlay", "/tmp/root", "overlay", 0,
		"lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work");
	for (; *shares; shares++)
		share(*shares);
	mounted("/proc", "/tmp/root/proc", NULL, MS_BIND | MS_REC, NULL);
	mounted("/sys", "/tmp/root/sys", NULL, MS_BIND | MS_REC, NULL);
	mounted("/dev", "/tmp/root/dev", NULL, MS_BIND | MS_REC, NULL);
	entered("/tmp/root");
	pivoted("mnt");
	unmounted("/mnt", MNT_DETACH);

	folder("/dev/pts");
	folder("/dev/shm");
	unlink("/dev/fd");
	if (symlink("/proc/self/fd", "/dev/fd"))
		fail("/dev/fd");
	mounted("devpts", "/dev/pts", "devpts", 0, "ptmxmode=666");
	mounted("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
	mounted("tmpfs", "/tmp", "tmpfs", 0, NULL);
	mounted("tmpfs", "/run", "tmpfs", 0, NULL);
	mounted("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);
	mounted("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	mounted("bpf", "/sys/fs/bpf", "bpf", 0, NULL);
	mounted("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL);
	folder("/run/sshd");
	folder("/run/netns");
}

/* Return how a child ended. Whatever lost its parent is a child of process 1, too. */
static int ended(pid_t child)
{
	int status = 0;
	pid_t one;

	while ((one = wait(&status)) != child)
		if (one < 0 && errno != EINTR)
			fail("waiting for process %d", child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static pid_t forked(void)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	return child;
}

/* The modules of a kernel that came with them; nothing asks for the generator's by itself. */
static void modules(void)
{
	static char *const pktgen[] = { "/sbin/modprobe", "pktgen", NULL };
	char from[200], to[200];
	struct utsname kernel;
	struct dirent *one;
	DIR *listed;
	pid_t child;

	if (access("/skblab/kernel/modules", F_OK))
		return;
	uname(&kernel);
	snprintf(from, sizeof(from), "/skblab/kernel/modules/%s", kernel.release);
	snprintf(to, sizeof(to), "/lib/modules/%s", kernel.release);
	folder("/lib/modules");
	folder(to);
	listed = opendir(from);
	if (!listed)
		fail("reading %s", from);
	while ((one = readdir(listed))) {
		char target[500], name[500];

		if (one->d_name[0] == '.')
			continue;
		snprintf(target, sizeof(target), "%s/%s", from, one->d_name);
		snprintf(name, sizeof(name), "%s/%s", to, one->d_name);
		if (symlink(target, name))
			fail("linking %s", name);
	}
	closedir(listed);
	child = forked();
	if (!child) {
		execv(pktgen[0], pktgen);
		fail("starting %s", pktgen[0]);
	}
	if (ended(child))
		log_line(4, "this kernel has no pktgen");
}

static void names(void)
{
	struct ifreq lo = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sethostname("skblab", 6))
		fail("sethostname");
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &lo))
		fail("lo");
	lo.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &lo))
		fail("lo");
	close(fd);
}

/* Say how sshd ended, with its last two lines; return whether anybody had logged in. */
static int sshd_said(int status)
{
	char line[300], before[300] = "", last[300] = "";
	FILE *log = fopen(SSHD_LOG, "r");
	int accepted = 0;

	while (log && fgets(line, sizeof(line), log)) {
		line[strcspn(line, "\r\n")] = 0;
		accepted |= !strncmp(line, "Accepted", strlen("Accepted"));
		strcpy(before, last);
		strcpy(last, line);
	}
	if (log)
		fclose(log);
	log_line(3, "sshd ended (exit %d): %s%s%s", status, before, *before ? " / " : "",
		 *last ? last : "it said nothing");
	return accepted;
}

/* Whether the host has let go of the port: what is written to it would wait for ever. */
static atomic_int gone;

static int send_all(int to, const char *data, ssize_t length)
{
	while (length > 0) {
		ssize_t sent = write(to, data, length);

		if (sent > 0) {
			data += sent;
			length -= sent;
		} else if (errno == EAGAIN) {
			if (gone)
				return -1;
			/* Not poll(): see relayed(). */
			usleep(1000);
		} else if (errno != EINTR) {
			return -1;
		}
	}
	return 0;
}

struct relay {
	int port, sshd;
	pthread_t reader, writer;
};

/* Copy what comes from the host until it lets go, also when nobody takes it any more. */
static void *from_host(void *argument)
{
	struct relay *relay = argument;
	struct pollfd host = { .fd = relay->port, .events = POLLIN };
	char data[4096];
	int taken = 1;
	ssize_t got;

	while ((got = read(relay->port, data, sizeof(data)))) {
		if (got > 0)
			taken = taken && !send_all(relay->sshd, data, got);
		else if (errno == EAGAIN)
			poll(&host, 1, -1);
		else if (errno != EINTR)
			break;
	}
	gone = 1;
	shutdown(relay->sshd, SHUT_WR);
	return NULL;
}

static void *to_host(void *argument)
{
	struct relay *relay = argument;
	char data[4096];
	ssize_t got;

	while ((got = read(relay->sshd, data, sizeof(data))))
		if ((got > 0 && send_all(relay->port, data, got)) || (got < 0 && errno != EINTR))
			break;
	return NULL;
}

/*
 * Run one sshd that speaks with the host, and return how it ended. It has a socket and
 * not the port itself: it asks poll() for its input and for its output, and where both
 * are one port, the second question may take the data of which the first was to be told
 * (virtio_console's port_has_data() leaves nothing to the interrupt that would wake it).
 * It then sleeps until the client's next sign of life, 20 s later.
 */
static int relayed(struct relay *relay)
{
	static char *const sshd[] = { SSHD, "-i", "-e", "-f", "/skblab/run/sshd_config", NULL };
	int ends[2], status;
	pid_t server;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		fail("socketpair");
	relay->sshd = ends[0];
	server = forked();
	if (!server) {
		int said = open(SSHD_LOG, O_WRONLY | O_CREAT | O_TRUNC, 0644);

		if (said < 0 || dup2(ends[1], 0) < 0 || dup2(ends[1], 1) < 0 || dup2(said, 2) < 0)
			fail("sshd's files");
		signal(SIGPIPE, SIG_DFL);
		execv(sshd[0], sshd);
		fail("starting %s", sshd[0]);
	}
	close(ends[1]);
	if (pthread_create(&relay->reader, NULL, from_host, relay) ||
	    pthread_create(&relay->writer, NULL, to_host, relay))
		fail("starting a thread");
	status = ended(server);
	pthread_join(relay->writer, NULL);
	return status;
}

/*
 * From here on process 1 has nothing left to fail at: whatever ends the connection
 * ends the guest, once there was one.
 */
static void serve(int port)
{
	/* A thread has it until the power goes. */
	static struct relay relay;
	struct pollfd host = { .fd = port };

	relay.port = port;
	for (int try = 1;; try++) {
		/* Until somebody is there, a read would find the end. */
		while (poll(&host, 1, 0) > 0 && host.revents & POLLHUP)
			usleep(20000);
		gone = 0;
		if (sshd_said(relayed(&relay)) || try == 3)
			break;
		/*
		 * Nobody has logged in: a handshake that failed is no reason to end. What the
		 * host still sends was for the old sshd.
		 */
		pthread_join(relay.reader, NULL);
		close(relay.sshd);
		log_line(3, "sshd starts again");
	}
	/* It reads on for as long as there is a host. */
	pthread_detach(relay.reader);
}

int main(int argc, char **argv)
{
	char device[300];
	char **shares = argv + 1;
	const char *how = argc > 1 ? argv[1] : "";
	int port, power;

	if (!strcmp(how, "held")) {
		held();
		shares++;
	} else {
		file_systems();
	}
	console();
	if (!strcmp(how, "hold"))
		hold(argv);
	if (strcmp(how, "held"))
		upper_layer("/tmp");
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	signal(SIGPIPE, SIG_IGN);
	writable_root(shares);
	modules();
	names();
	find_port("skblab.ssh", device, sizeof(device));
	port = open(device, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (port < 0)
		fail("%s", device);
	serve(port);
	sync();
	power = open("/proc/sysrq-trigger", O_WRONLY);
	if (power < 0 || write(power, "o", 1) != 1)
		fail("/proc/sysrq-trigger");
	/* No program can run any more once the root's device is off; an end would be a panic. */
	for (;;)
		pause();
}
