#define _GNU_SOURCE
#include "devices.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/small_file.h"

/* The longest rule, and what stands before and after the rules. */
enum { RULE_INSTRUCTIONS = 7, FIXED_INSTRUCTIONS = 6 + 2 };

struct program {
    struct bpf_insn *code;
    unsigned length;
};

static void emit(struct program *program, int code, int to, int from, int offset, int value)
{
    program->code[program->length++] = (struct bpf_insn){
        .code = (__u8)code, .dst_reg = (__u8)to & 15, .src_reg = (__u8)from & 15, .off = (__s16)offset, .imm = value};
}

/* struct bpf_cgroup_dev_ctx: access_type (access << 16 | type), major, minor; each 32 bits. */
static void emit_start(struct program *program)
{
    emit(program, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_1, 0, 0);
    emit(program, BPF_ALU | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_2, 0, 0);
    emit(program, BPF_ALU | BPF_RSH | BPF_K, BPF_REG_3, 0, 0, 16);
    emit(program, BPF_ALU | BPF_AND | BPF_K, BPF_REG_2, 0, 0, 0xffff);
    emit(program, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_4, BPF_REG_1, 4, 0);
    emit(program, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_5, BPF_REG_1, 8, 0);
}

/* r2 type, r3 access asked, r4 major, r5 minor. A rule that does not match jumps to the next one. */
static void emit_rule(struct program *program, const struct device_rule *rule, int verdict)
{
    int rest = (verdict ? 3 : 4) + (rule->major >= 0) + (rule->minor >= 0);
    int type = rule->type == 'c' ? BPF_DEVCG_DEV_CHAR : BPF_DEVCG_DEV_BLOCK;
    int access = (rule->access & DEVICE_READ ? BPF_DEVCG_ACC_READ : 0) |
                 (rule->access & DEVICE_WRITE ? BPF_DEVCG_ACC_WRITE : 0) |
                 (rule->access & DEVICE_MKNOD ? BPF_DEVCG_ACC_MKNOD : 0);

    emit(program, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_2, 0, rest--, type);
    if (rule->major >= 0)
        emit(program, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_4, 0, rest--, (int)rule->major);
    if (rule->minor >= 0)
        emit(program, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_5, 0, rest--, (int)rule->minor);
    /* A denial bites when any access asked is denied, a permission when all access asked is permitted. */
    if (verdict == 0) {
        emit(program, BPF_JMP | BPF_JSET | BPF_K, BPF_REG_3, 0, 1, access);
        emit(program, BPF_JMP | BPF_JA, 0, 0, 2, 0);
    } else {
        emit(program, BPF_JMP | BPF_JSET | BPF_K, BPF_REG_3, 0, 2, 7 & ~access);
    }
    emit(program, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, verdict);
    emit(program, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static int call_bpf(int command, union bpf_attr *attributes)
{
    return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static int load(const struct program *program)
{
    union bpf_attr attributes;

    memset(&attributes, 0, sizeof attributes);
    attributes.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    attributes.insns = (__u64)(uintptr_t)program->code;
    attributes.insn_cnt = program->length;
    attributes.license = (__u64)(uintptr_t) "Apache-2.0";
    return call_bpf(BPF_PROG_LOAD, &attributes);
}

static bool attach(int program, int cgroup)
{
    union bpf_attr attributes;

    memset(&attributes, 0, sizeof attributes);
    attributes.target_fd = (__u32)cgroup;
    attributes.attach_bpf_fd = (__u32)program;
    attributes.attach_type = BPF_CGROUP_DEVICE;
    attributes.attach_flags = BPF_F_ALLOW_MULTI;
    return call_bpf(BPF_PROG_ATTACH, &attributes) == 0;
}

static bool restrict_v2(int cgroup, const struct spec *spec)
{
    size_t rules = spec->deny_count + spec->allow_count;
    struct program program = {calloc(rules * RULE_INSTRUCTIONS + FIXED_INSTRUCTIONS, sizeof(struct bpf_insn)), 0};

    if (!program.code)
        return false;
    emit_start(&program);
    for (size_t i = 0; i < spec->allow_count; i++)
        emit_rule(&program, &spec->allow[i], 1);
    for (size_t i = 0; i < spec->deny_count; i++)
        emit_rule(&program, &spec->deny[i], 0);
    emit(&program, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1);
    emit(&program, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    int fd = load(&program);
    int error = errno;
    free(program.code);
    errno = error;
    return fd >= 0 && attach(fd, cgroup); /* the program lives as long as the cgroup; the descriptor goes at exec */
}

static void print_number(int64_t value, char text[24])
{
    if (value < 0)
        strcpy(text, "*");
    else
        snprintf(text, 24, "%lld", (long long)value);
}

static bool restrict_v1(int cgroup, const struct spec *spec)
{
    char major[24], minor[24], line[64];

    for (size_t i = 0; i < spec->deny_count; i++) {
        const struct device_rule *rule = &spec->deny[i];
        print_number(rule->major, major);
        print_number(rule->minor, minor);
        snprintf(line, sizeof line, "%c %s:%s %s%s%s", rule->type, major, minor, rule->access & DEVICE_READ ? "r" : "",
                 rule->access & DEVICE_WRITE ? "w" : "", rule->access & DEVICE_MKNOD ? "m" : "");
        if (write_small(cgroup, "devices.deny", line) < 0)
            return false;
    }
    return true;
}

bool devices_restrict(const struct cgroups *groups, const struct spec *spec, char *why, size_t size)
{
    if (!spec->deny_count)
        return true;
    for (size_t i = 0; i < groups->count; i++) {
        int group = groups->directories[i];
        bool first = faccessat(group, "devices.deny", W_OK, 0) == 0;
        bool second = !first && faccessat(group, "cgroup.controllers", F_OK, 0) == 0;
        if (first && spec->allow_count) {
            snprintf(why, size, "device_allow= cannot be expressed in cgroup v1: list every denied device instead");
            return false;
        }
        if ((first && restrict_v1(group, spec)) || (second && restrict_v2(group, spec)))
            return true;
        if (first || second) {
            snprintf(why, size, "the kernel refused the device rules of %.120s: %s", groups->paths[i], strerror(errno));
            return false;
        }
    }
    snprintf(why, size, "none of the cgroups given can hold device rules");
    return false;
}
