import { createECDH, type ECDH, generateKeyPairSync, randomBytes } from 'node:crypto';
import type { SecretOf } from '../../packages/core/src/channels.ts';
import {
  type KeyPair,
  makeAuthority,
  makeServerCertificate,
} from '../../packages/runtime/src/certificates.ts';

const HOST = '127.0.0.1';
/** Number of distinct devices, so that no per-device cache helps. */
const BROWSER_COUNT = 200;

/** Ports of the servers that simulate the providers. */
export interface Ports {
  apns: number;
  fcm: number;
  webPush: number;
}

/** A Web Push subscription. */
export interface Browser {
  endpoint: string;
  p256dh: string;
  auth: string;
}

/** Data that all senders of a run share. */
export interface ProviderFixture {
  host: string;
  ports: Ports;
  /** PEM. */
  ca: string;
  apns: SecretOf<'apns-token'>;
  fcm: SecretOf<'fcm'>;
  webPush: SecretOf<'web-push'>;
  browsers: Browser[];
}

/** Creates the servers' certificate. */
export async function createCertificates(): Promise<{ ca: string; server: KeyPair }> {
  const authority = await makeAuthority(2);
  const server = await makeServerCertificate(authority, [HOST], 1);
  return { ca: authority.certificate, server };
}

/** Creates the keys of a run. */
export function createProviderFixture(ca: string, ports: Ports): ProviderFixture {
  const apple = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const google = generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey;
  const vapid = createECDH('prime256v1');
  vapid.generateKeys();
  const pem = { format: 'pem', type: 'pkcs8' } as const;
  return {
    host: HOST,
    ports,
    ca,
    apns: {
      kind: 'apns-token',
      key: apple.export(pem).toString(),
      keyId: 'ABCDEFGHIJ',
      teamId: '0123456789',
      gateway: { host: HOST, port: ports.apns, ca },
    },
    fcm: {
      kind: 'fcm',
      projectId: 'bench',
      clientEmail: 'bench@bench.iam.gserviceaccount.com',
      privateKey: google.export(pem).toString(),
      tokenUri: `https://${HOST}:${ports.fcm}/token`,
      gateway: { host: HOST, port: ports.fcm, ca },
    },
    webPush: {
      kind: 'web-push',
      publicKey: vapid.getPublicKey('base64url'),
      privateKey: privateKeyOf(vapid),
      contact: 'mailto:bench@example.com',
    },
    browsers: Array.from({ length: BROWSER_COUNT }, () => createBrowser(ports.webPush)),
  };
}

function createBrowser(port: number): Browser {
  return {
    endpoint: `https://${HOST}:${port}/wpush/v2/${randomBytes(96).toString('base64url')}`,
    p256dh: createECDH('prime256v1').generateKeys('base64url'),
    auth: randomBytes(16).toString('base64url'),
  };
}

/** Pads a private key: ECDH omits leading zeros. */
function privateKeyOf(pair: ECDH): string {
  return Buffer.from(pair.getPrivateKey('hex').padStart(64, '0'), 'hex').toString('base64url');
}
