//! What a process gives up before it becomes an Envoy that judges.
//!
//! It reads what tenants wrote, so it is treated as one that they have taken over: it can reach nobody, start nothing, and leave
//! nothing behind. Landlock keeps it from files and other processes, seccomp from what that does not know of. Capabilities stay
//! what they were, and memory has no bound: whoever starts it has a container with a limit, and is not root. It may use one second of CPU time after the other only as long as whoever started it says.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::Command,
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};
use libc::{c_int, c_long};
use rustix::process::{Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// The most CPU time that a process may be given, in seconds; less once it is known what it judges.
pub const MAX_CPU_SECONDS: u64 = 60;

/// How many files a process may have open. Envoy has some twenty.
const MAX_OPEN_FILES: u64 = 64;

/// What an Envoy reads besides itself: libraries, certificates of authorities, and how many processors there are. There is nothing of anybody in them, and
/// nothing of other processes, its own included.
const READ: &[&str] = &[
    "/usr",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ssl/certs",
    "/sys/devices/system/cpu",
    "/dev/null",
    "/dev/urandom",
];

/// Becomes `program`, confined, with no environment, for as long as the process `parent` lives, which started this one. If the
/// last argument names a file, it may read that. Returns only if that fails.
pub fn exec(parent: u32, program: &OsStr, arguments: &[OsString]) -> io::Error {
    let files =
        arguments.last().map(Path::new).filter(|path| path.is_absolute()).into_iter().chain([Path::new(program)]);
    if let Err(error) = confine(parent, files) {
        return io::Error::other(format!("cannot confine a process: {error}"));
    }
    Command::new(program).args(arguments).env_clear().current_dir("/").exec()
}

fn confine<'a>(parent: u32, files: impl Iterator<Item = &'a Path>) -> io::Result<()> {
    // Of all that runs beside it, the kernel shall take this first. Where there is no /proc, it takes the largest.
    let _: io::Result<()> = std::fs::write("/proc/self/oom_score_adj", "1000");
    // Nobody waits for it when whoever started it is gone.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs()) != Some(parent) {
        return Err(io::Error::other("whoever started it is gone"));
    }
    for (resource, most) in [
        (Resource::Cpu, MAX_CPU_SECONDS),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nofile, MAX_OPEN_FILES),
    ] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    if enclose(files).map_err(io::Error::other)? == RulesetStatus::NotEnforced {
        return Err(io::Error::other(
            "the kernel has no Landlock, without which it could reach other processes and files",
        ));
    }
    let filter = filter().map_err(io::Error::other)?;
    // This sets no_new_privs, too.
    seccompiler::apply_filter(&filter).map_err(io::Error::other)
}

/// Has the kernel keep the process from all files but these and what every Envoy reads, and from what other processes have in
/// memory, whoever it runs as. What older kernels do not know of this, they leave out.
fn enclose<'a>(files: impl Iterator<Item = &'a Path>) -> Result<RulesetStatus, RulesetError> {
    let abi = ABI::V6;
    let paths = READ.iter().map(Path::new).chain(files);
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(paths, AccessFs::from_read(abi)))?;
    Ok(ruleset.restrict_self()?.ruleset)
}

/// System calls that are answered as if the kernel did not have them.
const DENIED: &[c_long] = &[
    // Reaching others. Sockets as such stay: Envoy ends where it cannot make any.
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    // Processes. Threads stay, which the C library then starts by the older call.
    libc::SYS_clone3,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_getfd,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_open,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Files other than reading them. How they are opened by this one cannot be seen here.
    libc::SYS_openat2,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_fchmodat2,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_truncate,
    // The kernel itself.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
];

/// Those that newer architectures have no more.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_mknod,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_creat,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[c_long] = &[];

/// The numbers by which a process of 64 bits makes system calls of the ABI called x32, of which none is served; some have numbers
/// of their own there.
#[cfg(target_arch = "x86_64")]
fn of_other_abi() -> impl Iterator<Item = c_long> {
    const X32: c_long = 0x4000_0000;
    (0..600).map(|number| X32 | number)
}
#[cfg(not(target_arch = "x86_64"))]
fn of_other_abi() -> impl Iterator<Item = c_long> {
    std::iter::empty()
}

/// `F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`
const SIGNALS: [u64; 3] = [8, 10, 15];
/// `FIOSETOWN`, `SIOCSPGRP`
const SIGNALS_BY_IOCTL: [u64; 2] = [0x8901, 0x8902];

/// The filter. It ends a process that calls by another architecture's numbers.
fn filter() -> Result<BpfProgram, seccompiler::Error> {
    let own = getpid().as_raw_nonzero().get();
    #[expect(clippy::cast_sign_loss, reason = "it is compared as 32 bits, and above zero")]
    let own = own as u64;
    let when = |argument, operator, value| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
        SeccompRule::new(vec![condition])
    };
    let all_of = |flags: c_int| SeccompCmpOp::MaskedEq(u64::from(flags.unsigned_abs()));
    // Opens that may write, make or empty a file; each has the flags in another place.
    let writes = |argument| {
        let flags = [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC];
        let rule = |flag: c_int| when(argument, all_of(flag), u64::from(flag.unsigned_abs()));
        flags.into_iter().map(rule).collect::<Result<Vec<_>, _>>()
    };
    let one_of = |argument, values: &[u64]| {
        values.iter().map(|value| when(argument, SeccompCmpOp::Eq, *value)).collect::<Result<Vec<_>, _>>()
    };
    let always = DENIED.iter().chain(DENIED_HERE).copied().chain(of_other_abi());
    let mut rules: BTreeMap<_, _> = always.map(|call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, vec![when(0, all_of(libc::CLONE_THREAD), 0)?]);
    rules.insert(libc::SYS_openat, writes(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, writes(1)?);
    // Limits of its own it may read. A pointer is none where both halves are.
    let any = |argument| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
        SeccompRule::new(vec![condition])
    };
    rules.insert(libc::SYS_prlimit64, vec![when(0, SeccompCmpOp::Ne, 0)?, any(2)?]);
    rules.insert(libc::SYS_setrlimit, Vec::new());
    // Signals that others are sent when something comes in.
    rules.insert(libc::SYS_fcntl, one_of(1, &SIGNALS)?);
    rules.insert(libc::SYS_ioctl, one_of(1, &SIGNALS_BY_IOCTL)?);
    // A process that ends itself says why by the signal.
    rules.insert(libc::SYS_kill, vec![when(0, SeccompCmpOp::Ne, own)?]);
    rules.insert(libc::SYS_tgkill, vec![when(0, SeccompCmpOp::Ne, own)?]);
    let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, absent, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_filter_for_this_architecture() {
        let program = filter().expect("it is sound");
        assert!(program.len() < 4096, "the kernel takes no more than 4096 instructions");
    }
}
