// Runs the child processes of the set-up. Each leads its own process group: Ctrl-C in a terminal
// signals only the bootstrap, which then stops the groups and cleans up.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { UserError } from './terminal.mjs';

const MAX_OUTPUT_CHARACTERS = 20_000;
const KILL_AFTER_MS = 5000;
const SIGNAL_NUMBERS = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 };

const processGroups = new Set();
let interruptSignal;

/** Throws if the user has interrupted the set-up. Called in waits for something other than a child. */
export function throwIfInterrupted() {
  if (interruptSignal) throw new UserError('Stopped.', 128 + SIGNAL_NUMBERS[interruptSignal]);
}

/**
 * Handles SIGINT, SIGTERM and SIGHUP during the set-up.
 *
 * @returns {() => void} removes the handlers
 */
export function interruptSetUpOnSignals() {
  const onSignal = (signal) => {
    interruptSignal ??= signal;
    for (const group of processGroups) stopGroup(group);
  };
  for (const signal of Object.keys(SIGNAL_NUMBERS)) process.on(signal, onSignal);
  return () => {
    for (const signal of Object.keys(SIGNAL_NUMBERS)) process.off(signal, onSignal);
  };
}

function stopGroup({ child, unbreakable }) {
  // A package manager that is interrupted while it unpacks leaves the system half configured.
  if (unbreakable) return;
  signalGroup(child.pid, 'SIGTERM');
  setTimeout(() => signalGroup(child.pid, 'SIGKILL'), KILL_AFTER_MS).unref();
}

function signalGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has already ended.
  }
}

/**
 * Runs a command without input and waits for its exit.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, unbreakable?: boolean, onLine?: (line: string) => void }} [options]
 *   `unbreakable`: Ctrl-C does not stop it; `onLine` gets each line of its output
 * @returns {Promise<{ ok: boolean, code: number | null, missing: boolean, stdout: string, output: string }>}
 *   `missing`: the command was not found; `output`: the end of its stdout and stderr
 * @throws {UserError} when the user interrupts the set-up
 */
export function run(command, args, options = {}) {
  throwIfInterrupted();
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const group = { child, unbreakable: options.unbreakable === true };
    processGroups.add(group);
    let stdout = '';
    let output = '';
    if (options.onLine !== undefined) {
      for (const stream of [child.stdout, child.stderr])
        createInterface({ input: stream }).on('line', options.onLine);
    }
    child.stdout.on('data', (text) => {
      stdout = (stdout + text).slice(-MAX_OUTPUT_CHARACTERS);
      output = (output + text).slice(-MAX_OUTPUT_CHARACTERS);
    });
    child.stderr.on('data', (text) => {
      output = (output + text).slice(-MAX_OUTPUT_CHARACTERS);
    });
    const settle = (code, missing) => {
      processGroups.delete(group);
      try {
        throwIfInterrupted();
        resolve({ ok: code === 0, code, missing, stdout, output });
      } catch (error) {
        reject(error);
      }
    };
    child.once('error', (error) => {
      output += error.message;
      settle(null, error.code === 'ENOENT');
    });
    child.once('close', (code) => settle(code, false));
  });
}

/** Formats the last lines of a command's output, indented, for an error message. */
export function lastLines(output, count = 6) {
  const lines = output
    .split('\n')
    .map((line) => line.trimEnd())
    .filter((line) => line !== '');
  return lines
    .slice(-count)
    .map((line) => `  ${line}`)
    .join('\n');
}
