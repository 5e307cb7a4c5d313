// Identifies a process by its pid and start time: the system reuses pids.

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const START_TIME_FIELD = 19; // field 22 of proc(5) stat, counted after "(command) "

/**
 * Reads the start time of a process, as a text that together with the pid is unique on this machine.
 * A zombie counts as ended: once its last thread has ended, it holds no port, file or lock.
 *
 * @param {number} pid
 * @returns {string | undefined} undefined when there is no such process
 */
export function readStartTime(pid) {
  return process.platform === 'linux' ? readStartTimeFromProc(pid) : readStartTimeFromPs(pid);
}

function readStartTimeFromProc(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'X' || (fields[0] === 'Z' && hasOneThread(pid))) return undefined;
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot}/${fields[START_TIME_FIELD]}`;
  } catch {
    return undefined;
  }
}

// A process that is exiting shows as a zombie while its other threads still hold its ports and files.
function hasOneThread(pid) {
  return readdirSync(`/proc/${pid}/task`).length === 1;
}

function readStartTimeFromPs(pid) {
  try {
    const line = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
    const [state = '', ...start] = line.split(/\s+/);
    return state === '' || state.startsWith('Z') ? undefined : start.join(' ');
  } catch {
    return undefined;
  }
}

/**
 * Checks whether a recorded process still runs.
 *
 * @param {{ pid: number, started: string }} process
 * @returns {boolean}
 */
export function isAlive({ pid, started }) {
  return readStartTime(pid) === started;
}
