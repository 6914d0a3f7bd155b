// Process 1 of a virtual machine that plays a host: it starts the command in /disk/command at its first boot and
// `knee metal` at each later one, as a boot script does. Its disk outlives the boots.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void load_modules(void)
{
    struct dirent **entries;
    int n = scandir("/modules", &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[512];
        snprintf(path, sizeof path, "/modules/%s", entries[i]->d_name);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (entries[i]->d_name[0] != '.' && syscall(SYS_finit_module, file, "", 0) != 0)
            perror(path);
        close(file);
    }
}

static void start_knee(void)
{
    char *arguments[64] = { "knee", "metal" };
    if (access("/disk/started", F_OK) != 0) {
        static char text[4096];
        close(open("/disk/started", O_CREAT | O_WRONLY, 0600));
        int file = open("/disk/command", O_RDONLY | O_CLOEXEC), n = 1;
        read(file, text, sizeof text - 1);
        for (char *word = strtok(text, "\n"); word; word = strtok(NULL, "\n"))
            arguments[n++] = word;
    }
    setenv("HOME", "/disk/home", 1);
    setenv("KNEE_RECORDS", "/disk/records", 1);
    chdir("/disk");
    execv("/disk/knee", arguments);
    perror("/disk/knee");
    _exit(127);
}

int main(void)
{
    const char *folders[] = { "/proc", "/sys", "/dev", "/tmp", "/disk", "/var", "/var/lib", "/var/lib/knee" };
    for (int i = 0; i < 8; i++)
        mkdir(folders[i], 0755);
    mount("devtmpfs", "/dev", "devtmpfs", 0, "");
    mount("proc", "/proc", "proc", 0, "");
    mount("sysfs", "/sys", "sysfs", 0, "");
    mount("tmpfs", "/tmp", "tmpfs", 0, "");
    setvbuf(stdout, NULL, _IOLBF, 0);
    load_modules();
    for (int i = 0; i < 1000 && mount("/dev/vda", "/disk", "ext4", 0, "") != 0; i++)
        usleep(20000);
    mount("/disk/state", "/var/lib/knee", NULL, MS_BIND, NULL);
    pid_t child = fork();
    if (child == 0)
        start_knee();
    int status = 0;
    waitpid(child, &status, 0);
    printf("TRIAL: knee ended with %d\n", WEXITSTATUS(status));
    sync();
    reboot(RB_AUTOBOOT);
    return 1;
}
