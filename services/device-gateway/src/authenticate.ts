import { type DeviceAuthKeys, isDeviceAuth, matchesAuthDigest } from '@carillon/core/device-auth';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import { resultWithin, withTimeout } from '@carillon/core/with-timeout';
import { isChangedByConnect } from '@carillon/store/device-ways';
import { type ConnectingDevice, hasCredentials } from '@carillon/store/devices';
import type { Store } from '@carillon/store/store';
import { type IConnectPacket, parser } from 'mqtt-packet';
import type { AddressLimits } from './address-limits.ts';
import { CONNACK, ProtocolError, readBody } from './frames.ts';

/** Content of a valid CONNECT. */
interface ConnectRequest {
  token: string;
  auth: string;
  keepaliveSeconds: number;
}

export type AuthResult =
  /** `device` is undefined while MongoDB is unreachable. */
  | { isAuthenticated: true; request: ConnectRequest; device: ConnectingDevice | undefined }
  /** `isAuthFailure`: the credentials are wrong, or the address had too many lookups to check them. */
  | { isAuthenticated: false; code: number; isAuthFailure: boolean };

/** The parts of the gateway that authentication uses. */
export interface AuthContext {
  devices: Pick<Store['devices'], 'findForConnect' | 'markConnected'>;
  authKeys: DeviceAuthKeys;
  limits: AddressLimits;
}

/** Maximum keepalive. Longer intervals, and 0 (none), would hide a dead connection for too long. */
const KEEPALIVE_MAX_SECONDS = 1_200;
const KEEPALIVE_MIN_SECONDS = 5;
/**
 * Maximum duration of a device's lookup. After it the signature of the auth alone decides, so that the CONNACK is not
 * late.
 */
const LOOKUP_TIMEOUT_MS = 2_000;

/**
 * Authenticates the device of a CONNECT packet. An outage never results in a rejection of the credentials (guarantee
 * G15): official SDKs register a new device when their credentials are rejected.
 *
 * @param address of the client, for its limits
 * @throws ProtocolError when the connection is to be closed without a CONNACK
 */
export async function authenticate(
  context: AuthContext,
  frame: Buffer,
  address: string,
): Promise<AuthResult> {
  if (!isSupportedProtocol(frame)) return reject(CONNACK.wrongProtocol);
  const request = readConnectRequest(parseConnectPacket(frame));
  if (request === undefined) return rejectCredentials(CONNACK.badCredentials);
  return authenticateDevice(context, request, address);
}

/**
 * Protocol name and level of MQTT 3.1.1, and of MQTT 3.1: Go clients and older Python clients try 3.1 as well, and
 * would report a wrong version instead of wrong credentials. Both are served alike.
 */
const SUPPORTED_PROTOCOLS = [Buffer.from('\0\x04MQTT\x04'), Buffer.from('\0\x06MQIsdp\x03')];

/** Checks whether the protocol is supported; any other level gets CONNACK 1 (MQTT-3.1.2-2). */
function isSupportedProtocol(frame: Buffer): boolean {
  const body = readBody(frame);
  return SUPPORTED_PROTOCOLS.some((protocol) => body.subarray(0, protocol.length).equals(protocol));
}

/**
 * Parses a CONNECT. A will is ignored and never published (against MQTT-3.1.2-8): devices publish nothing, and a
 * device that is rejected for the will its library sends would register again without end.
 */
function parseConnectPacket(frame: Buffer): IConnectPacket {
  const connect = parseWithLibrary(frame);
  if (connect === undefined) throw new ProtocolError('malformed CONNECT');
  return connect;
}

/** One parser for all packets, replaced after a malformed one: creating a parser takes longer than using it. */
const parseWithLibrary = createParser();

function createParser(): (frame: Buffer) => IConnectPacket | undefined {
  let found: IConnectPacket | undefined;
  let reader = createReader();

  function createReader() {
    const newReader = parser();
    newReader.on('packet', (packet) => {
      if (packet.cmd === 'connect') found = packet;
    });
    // Without a listener the error would be thrown; a malformed packet results in no packet.
    newReader.on('error', () => undefined);
    return newReader;
  }

  return (frame) => {
    found = undefined;
    const remainingBytes = reader.parse(frame);
    if (found === undefined || remainingBytes > 0) reader = createReader();
    return found;
  };
}

function readConnectRequest({
  clientId,
  username,
  password,
  keepalive,
}: IConnectPacket): ConnectRequest | undefined {
  if (clientId !== username || password === undefined || !DEVICE_TOKEN.test(clientId))
    return undefined;
  const seconds = keepalive === undefined || keepalive === 0 ? KEEPALIVE_MAX_SECONDS : keepalive;
  return {
    token: clientId,
    auth: password.toString('latin1'),
    keepaliveSeconds: Math.min(Math.max(seconds, KEEPALIVE_MIN_SECONDS), KEEPALIVE_MAX_SECONDS),
  };
}

async function authenticateDevice(
  { devices, authKeys, limits }: AuthContext,
  request: ConnectRequest,
  address: string,
): Promise<AuthResult> {
  const { token, auth } = request;
  const isSigned = isDeviceAuth(authKeys, token, auth);
  // The credentials were not checked, so the code must not say that they are wrong.
  if (!isSigned && !limits.tryAcquireLookup(address)) return rejectCredentials(CONNACK.unavailable);
  try {
    // The driver's own timeout may take twice as long when a server is frozen.
    const lookup = devices.findForConnect(token);
    const device = await withTimeout(lookup, LOOKUP_TIMEOUT_MS, 'MongoDB');
    if (!isSigned) {
      if (!matchesAuthDigest(device?.authDigest, auth))
        return rejectCredentials(CONNACK.badCredentials);
      limits.refundLookup(address);
    }
    if (!hasCredentials(device)) return rejectCredentials(CONNACK.notAuthorized);
    // Awaited: a push that is accepted after the CONNACK goes by MQTT. A failed write is repeated with a later ping.
    if (isChangedByConnect(device))
      await resultWithin(devices.markConnected(token), LOOKUP_TIMEOUT_MS, undefined).catch(
        () => undefined,
      );
    // A prune may have deleted it before that write (store/prune-devices). It is read again, or accepted if that fails.
    if (device.isIdle) {
      const again = devices.findForConnect(token);
      if (!hasCredentials(await resultWithin(again, LOOKUP_TIMEOUT_MS, device)))
        return rejectCredentials(CONNACK.notAuthorized);
    }
    return { isAuthenticated: true, request, device };
  } catch {
    if (isSigned) return { isAuthenticated: true, request, device: undefined };
    // The auth of an imported device can't be checked without MongoDB.
    limits.refundLookup(address);
    return reject(CONNACK.unavailable);
  }
}

function reject(code: number): AuthResult {
  return { isAuthenticated: false, code, isAuthFailure: false };
}

function rejectCredentials(code: number): AuthResult {
  return { isAuthenticated: false, code, isAuthFailure: true };
}
