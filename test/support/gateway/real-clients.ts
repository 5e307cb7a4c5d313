import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { connect } from 'mqtt';
import { type Credentials, registerDevice } from '../register-device.ts';
import type { Dev } from '../stack/dev-file.ts';

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
  return {
    name: `mqtt.js over ${scheme}`,
    token,
    auth,
    payloads,
    stop: () => client.endAsync(true),
  };
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
  const child = spawn('mosquitto_sub', ['-h', hostname, '-p', port, ...who, ...secure], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const payloads: string[] = [];
  followLines(child, (line) => payloads.push(line));
  return {
    name: `mosquitto_sub over ${scheme}`,
    token,
    auth,
    payloads,
    stop: () => stopProcess(child),
  };
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
