// Which process a written-down pid really means: pids are used again, start times are not.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const START_TIME_FIELD = 19; // field 22 of proc(5) stat, counted after "(command) "

/**
 * A text that no other process of this machine ever has together with this pid, or undefined when
 * there is no such process. A zombie counts as gone: it holds no port, file or lock.
 *
 * @param {number} pid
 * @returns {string | undefined}
 */
export function startOf(pid) {
  return process.platform === 'linux' ? startByProc(pid) : startByPs(pid);
}

function startByProc(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot}/${fields[START_TIME_FIELD]}`;
  } catch {
    return undefined;
  }
}

function startByPs(pid) {
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
 * Does the process that was written down still run?
 *
 * @param {{ pid: number, started: string }} process
 * @returns {boolean}
 */
export function isAlive({ pid, started }) {
  return startOf(pid) === started;
}
