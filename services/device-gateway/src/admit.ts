import { createHash, timingSafeEqual } from 'node:crypto';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import { type IConnectPacket, parser } from 'mqtt-packet';
import { bodyOf, CONNACK, ProtocolError } from './frames.ts';

/** What a CONNECT says. */
export interface Greeting {
  token: string;
  auth: string;
  keepaliveSeconds: number;
}

export type Admission =
  | { isAdmitted: true; greeting: Greeting; isVerified: boolean }
  | { isAdmitted: false; code: number };

export interface AdmitDeps {
  /** Whether one of our keys made the auth. */
  isDeviceAuth(token: string, auth: string): boolean;
  /** What MongoDB knows of a device. Throws when MongoDB fails. */
  findDevice(token: string): Promise<{ deletedAt?: Date; authDigest?: string } | undefined>;
}

/** Longer intervals would hide a dead link for too long; 0 (never) is one of them. */
const KEEPALIVE_MAX_SECONDS = 1_200;
const KEEPALIVE_MIN_SECONDS = 5;
/** Devices wait for their CONNACK; without MongoDB's word our signature decides. */
const LOOK_UP_MS = 2_000;

/**
 * Decides about a CONNECT: is it of our protocol, well-formed, and by whom it says?
 * An outage never looks like a refusal (guarantee G15): official SDKs register anew when refused.
 *
 * @throws ProtocolError when the link is to be closed without an answer
 */
export async function admit(frame: Buffer, deps: AdmitDeps): Promise<Admission> {
  if (!isOurProtocol(frame)) return refuse(CONNACK.wrongProtocol);
  const greeting = readGreeting(parseConnect(frame));
  if (greeting === undefined) return refuse(CONNACK.badCredentials);
  return checkDevice(greeting, deps);
}

/** MQTT 3.1.1 is protocol name `MQTT`, level 4 (MQTT-3.1.2-2: any other level is answered with code 1). */
function isOurProtocol(frame: Buffer): boolean {
  const body = bodyOf(frame);
  const isNamed =
    body.length > 6 && body.readUInt16BE(0) === 4 && body.toString('latin1', 2, 6) === 'MQTT';
  return isNamed && body[6] === 4;
}

function parseConnect(frame: Buffer): IConnectPacket {
  const connect = parseByLibrary(frame);
  if (connect === undefined) throw new ProtocolError('malformed CONNECT');
  if (connect.will !== undefined) throw new ProtocolError('a will, and devices publish nothing');
  return connect;
}

/** One parser for all whole packets, a new one after each that was none: making one takes longer than using it. */
const parseByLibrary = createParser();

function createParser(): (frame: Buffer) => IConnectPacket | undefined {
  let found: IConnectPacket | undefined;
  let reader = start();

  function start() {
    const fresh = parser();
    fresh.on('packet', (packet) => {
      if (packet.cmd === 'connect') found = packet;
    });
    // Without a listener the error would be thrown; it shows as no packet.
    fresh.on('error', () => undefined);
    return fresh;
  }

  return (frame) => {
    found = undefined;
    const left = reader.parse(frame);
    if (found === undefined || left > 0) reader = start();
    return found;
  };
}

function readGreeting({
  clientId,
  username,
  password,
  keepalive,
}: IConnectPacket): Greeting | undefined {
  if (clientId !== username || password === undefined || !DEVICE_TOKEN.test(clientId))
    return undefined;
  const seconds = keepalive === undefined || keepalive === 0 ? KEEPALIVE_MAX_SECONDS : keepalive;
  return {
    token: clientId,
    auth: password.toString('latin1'),
    keepaliveSeconds: Math.min(Math.max(seconds, KEEPALIVE_MIN_SECONDS), KEEPALIVE_MAX_SECONDS),
  };
}

async function checkDevice(greeting: Greeting, deps: AdmitDeps): Promise<Admission> {
  const { token, auth } = greeting;
  const isOurs = deps.isDeviceAuth(token, auth);
  try {
    const device = await inTime(deps.findDevice(token));
    if (!isOurs && !isImportedAuth(device?.authDigest, auth)) return refuse(CONNACK.badCredentials);
    if (device === undefined || device.deletedAt !== undefined)
      return refuse(CONNACK.notAuthorized);
    return { isAdmitted: true, greeting, isVerified: true };
  } catch {
    // Our own signature needs no database; an imported device's auth can't be told from a wrong one now.
    return isOurs ? { isAdmitted: true, greeting, isVerified: false } : refuse(CONNACK.unavailable);
  }
}

/** The driver's own timeout may take twice its time when a server is frozen. */
async function inTime<T>(asked: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('MongoDB did not answer in time')), LOOK_UP_MS);
  });
  return Promise.race([asked, late]).finally(() => clearTimeout(timer));
}

function isImportedAuth(digest: string | undefined, auth: string): boolean {
  if (digest === undefined) return false;
  const given = createHash('sha256').update(auth).digest();
  const expected = Buffer.from(digest, 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function refuse(code: number): Admission {
  return { isAdmitted: false, code };
}
