import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { connect } from 'mqtt';
import { type Credentials, registerDevice } from '../register-device.ts';
import type { Dev } from '../stack/dev-file.ts';
import { installPythonPackage } from '../with-python/python.ts';

const execFileAsync = promisify(execFile);
const PAHO = 'paho-mqtt==2.1.0';

export type Scheme = 'mqtt' | 'mqtts' | 'ws';

/** A common client library that acts as a device; it reconnects by itself. */
export interface RealClient extends Credentials {
  name: string;
  /** Payloads that it delivered to its user, in order. */
  payloads: string[];
  stop(): Promise<void>;
}

interface ConnectOptions extends Credentials {
  url: string;
  ca: string;
}

async function connectOptionsFor(dev: Dev, scheme: Scheme): Promise<ConnectOptions> {
  const url = { mqtt: dev.mqtt, mqtts: dev.mqtts, ws: dev.ws }[scheme];
  if (url === undefined || dev.ca === undefined) throw new Error(`the stack offers no ${scheme}`);
  return { url, ca: dev.ca, ...(await registerDevice(dev)) };
}

/** MQTT.js, which the official SDK for Electron is built on. */
export async function startMqttJs(dev: Dev, scheme: Scheme): Promise<RealClient> {
  const { url, ca, token, auth } = await connectOptionsFor(dev, scheme);
  const client = connect(url, {
    clientId: token,
    username: token,
    password: auth,
    protocolVersion: 4,
    reconnectPeriod: 500,
    ca: readFileSync(ca),
  });
  client.on('error', () => undefined);
  const payloads: string[] = [];
  client.on('message', (_topic, payload) => payloads.push(payload.toString()));
  const name = `mqtt.js over ${scheme}`;
  return { name, token, auth, payloads, stop: () => client.endAsync(true) };
}

/** Eclipse Paho, which the official SDK for Python is built on. */
export async function startPaho(dev: Dev, scheme: Scheme, folder: string): Promise<RealClient> {
  const { url, ca, token, auth } = await connectOptionsFor(dev, scheme);
  const script = fileURLToPath(new URL('paho-device.py', import.meta.url));
  const payloads: string[] = [];
  const child = spawn('python3', [script, url, token, auth, ca], {
    env: { ...process.env, PYTHONPATH: folder },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  followLines(child, (line) => {
    const { payload } = JSON.parse(line) as { payload?: string };
    if (payload !== undefined) payloads.push(payload);
  });
  return { name: `paho over ${scheme}`, token, auth, payloads, stop: () => stopProcess(child) };
}

/** mosquitto_sub has to subscribe to something: it takes the device's own token. */
export async function startMosquitto(dev: Dev, scheme: 'mqtt' | 'mqtts'): Promise<RealClient> {
  const { url, ca, token, auth } = await connectOptionsFor(dev, scheme);
  const { hostname, port } = new URL(url);
  const who = ['-i', token, '-u', token, '-P', auth, '-q', '1', '-t', token];
  const secure = scheme === 'mqtts' ? ['--cafile', ca] : [];
  const args = ['-h', hostname, '-p', port, ...who, ...secure];
  const child = spawn('mosquitto_sub', args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const payloads: string[] = [];
  followLines(child, (line) => payloads.push(line));
  const name = `mosquitto_sub over ${scheme}`;
  return { name, token, auth, payloads, stop: () => stopProcess(child) };
}

/** Publishes as a device. Returns the exit code of mosquitto_pub. */
export async function publishByMosquitto(dev: Dev): Promise<number> {
  const { url, token, auth } = await connectOptionsFor(dev, 'mqtt');
  const { hostname, port } = new URL(url);
  const who = ['-i', token, '-u', token, '-P', auth, '-q', '1', '-t', 'x', '-m', 'y'];
  const child = spawn('mosquitto_pub', ['-h', hostname, '-p', port, ...who], { stdio: 'ignore' });
  const [code] = (await once(child, 'exit')) as [number];
  return code;
}

function followLines(child: ChildProcess, onLine: (line: string) => void): void {
  if (child.stdout !== null) createInterface({ input: child.stdout }).on('line', onLine);
}

async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

/**
 * Makes sure that mosquitto_sub and mosquitto_pub are on PATH; as root on Debian it installs them.
 *
 * @throws when they are missing and can't be installed
 */
export async function ensureMosquitto(): Promise<void> {
  const isThere = await execFileAsync('mosquitto_sub', ['--help']).then(
    () => true,
    (error: { code?: unknown }) => error.code !== 'ENOENT',
  );
  if (isThere) return;
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await execFileAsync('apt-get', ['update'], { env });
  const install = ['install', '-y', '--no-install-recommends', 'mosquitto-clients'];
  await execFileAsync('apt-get', install, { env });
}

/**
 * Installs Eclipse Paho into a folder of its own in the user's cache, once.
 *
 * @returns the folder, for PYTHONPATH
 * @throws when there is no python3 with pip
 */
export async function ensurePaho(): Promise<string> {
  const folder = join(homedir(), '.cache', 'carillon', PAHO);
  const env = { ...process.env, PYTHONPATH: folder };
  const isThere = await execFileAsync('python3', ['-c', 'import paho.mqtt.client'], { env }).then(
    () => true,
    () => false,
  );
  if (!isThere) {
    await installPythonPackage(folder, PAHO);
  }
  return folder;
}
