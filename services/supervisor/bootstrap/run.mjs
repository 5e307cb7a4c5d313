// Child processes of the set-up. Each leads a process group of its own: Ctrl-C in a terminal
// reaches only the bootstrap, which then ends the groups and tidies up.

import { spawn } from 'node:child_process';
import { Refusal } from './say.mjs';

const KEPT_CHARACTERS = 20_000;
const END_MS = 5000;
const SIGNALS = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 };

const groups = new Set();
let stopped;

/** Throws if the user has asked to stop. Called where set-up waits for something else than a child. */
export function checkStopped() {
  if (stopped) throw new Refusal('Stopped.', 128 + SIGNALS[stopped]);
}

/** Takes over SIGINT, SIGTERM and SIGHUP for the time of set-up; the answer gives them back. */
export function stopSetUpOnSignals() {
  const onSignal = (signal) => {
    stopped ??= signal;
    for (const group of groups) endGroup(group);
  };
  for (const signal of Object.keys(SIGNALS)) process.on(signal, onSignal);
  return () => {
    for (const signal of Object.keys(SIGNALS)) process.off(signal, onSignal);
  };
}

function endGroup({ child, unbreakable }) {
  // A package manager that is cut off while it unpacks leaves the system half configured.
  if (unbreakable) return;
  signalGroup(child.pid, 'SIGTERM');
  setTimeout(() => signalGroup(child.pid, 'SIGKILL'), END_MS).unref();
}

function signalGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has ended by itself.
  }
}

/**
 * Runs a command to its end without input.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, unbreakable?: boolean }} [options]
 *   `unbreakable`: Ctrl-C waits for it
 * @returns {Promise<{ ok: boolean, missing: boolean, stdout: string, output: string }>} `missing`:
 *   there is no such command; `output`: the end of what it printed on both streams
 * @throws {Refusal} when the user stops the set-up
 */
export function run(command, args, options = {}) {
  checkStopped();
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const group = { child, unbreakable: options.unbreakable === true };
    groups.add(group);
    let stdout = '';
    let output = '';
    child.stdout.on('data', (text) => {
      stdout = (stdout + text).slice(-KEPT_CHARACTERS);
      output = (output + text).slice(-KEPT_CHARACTERS);
    });
    child.stderr.on('data', (text) => {
      output = (output + text).slice(-KEPT_CHARACTERS);
    });
    const end = (ok, missing) => {
      groups.delete(group);
      try {
        checkStopped();
        resolve({ ok, missing, stdout, output });
      } catch (error) {
        reject(error);
      }
    };
    child.once('error', (error) => {
      output += error.message;
      end(false, error.code === 'ENOENT');
    });
    child.once('close', (code) => end(code === 0, false));
  });
}

/** The last lines of a command's output, indented, for a message about its failure. */
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
