import { createPrivateKey, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { type KeyPair, makeAuthority, makeServerCertificate } from './certificates.ts';
import type { Home } from './home.ts';

const AUTHORITY_DAYS = 3_650;
/** Apple's systems refuse servers' certificates of more than 825 days, also those of a private authority. */
const SERVER_DAYS = 800;
const RENEWED_BEFORE_MS = 30 * 86_400_000;
const LOOK_EVERY_MS = 3_600_000;

/** Paths of what a server and its clients need, all PEM. */
export interface TlsFiles {
  ca: string;
  certificate: string;
  key: string;
}

/**
 * Makes sure that a stack has a certificate authority of its own and a server certificate for its addresses;
 * what is near its end, or can't be used, is made anew. Devices trust the authority, so it lives long.
 *
 * @param host the address that the stack listens on
 */
export async function ensureTlsFiles(home: Home, host: string): Promise<TlsFiles> {
  const names = namesOf(host);
  const authority = await ensurePair(home, 'ca', {
    isGood: ({ certificate }) => new X509Certificate(certificate).ca,
    make: () => makeAuthority(AUTHORITY_DAYS),
  });
  await ensurePair(home, 'server', {
    isGood: ({ certificate }) => isFor(new X509Certificate(certificate), authority, names),
    make: () => makeServerCertificate(authority, names, SERVER_DAYS),
  });
  const { certificate: ca } = pathsOf('ca');
  const { certificate, key } = pathsOf('server');
  return { ca: home.at(ca), certificate: home.at(certificate), key: home.at(key) };
}

/** Renews the files of a stack that runs for a long time; the gateways see new ones by themselves. */
export function keepTlsFiles(home: Home, host: string, say: (line: string) => void): () => void {
  const timer = setInterval(() => {
    ensureTlsFiles(home, host).catch((error: unknown) =>
      say(`The TLS certificate could not be renewed: ${(error as Error).message}`),
    );
  }, LOOK_EVERY_MS);
  return () => clearInterval(timer);
}

/** By what devices reach a server that listens on `host`; all of the machine's addresses when that is every one. */
function namesOf(host: string): string[] {
  const isEvery = host === '0.0.0.0' || host === '::';
  const interfaces = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  // Link-local ones carry a zone, and a certificate can't.
  const addresses = interfaces.map(({ address }) => address).filter((one) => !/%|^fe80/.test(one));
  const own = isEvery ? [hostname(), ...addresses] : [host];
  return [...new Set(['localhost', '127.0.0.1', '::1', ...own])];
}

async function ensurePair(
  home: Home,
  name: string,
  { isGood, make }: { isGood(pair: KeyPair): boolean; make(): Promise<KeyPair> },
): Promise<KeyPair> {
  const present = readPair(home, name);
  if (present !== undefined && isLasting(present) && isGood(present)) return present;
  const made = await make();
  const paths = pathsOf(name);
  // Whoever reads between the two finds a pair that doesn't match, and reads again.
  home.writeText(paths.key, made.key);
  home.writeText(paths.certificate, made.certificate);
  return made;
}

function pathsOf(name: string): { certificate: string; key: string } {
  return { certificate: `tls/${name}.pem`, key: `tls/${name}-key.pem` };
}

function readPair(home: Home, name: string): KeyPair | undefined {
  const paths = pathsOf(name);
  if (!existsSync(home.at(paths.certificate)) || !existsSync(home.at(paths.key))) return undefined;
  return {
    certificate: readFileSync(home.at(paths.certificate), 'utf8'),
    key: readFileSync(home.at(paths.key), 'utf8'),
  };
}

function isLasting({ certificate, key }: KeyPair): boolean {
  try {
    const read = new X509Certificate(certificate);
    const lasts = read.validToDate.getTime() - Date.now() > RENEWED_BEFORE_MS;
    return lasts && read.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

function isFor(server: X509Certificate, authority: KeyPair, names: readonly string[]): boolean {
  const covers = (name: string) =>
    (isIP(name) === 0 ? server.checkHost(name) : server.checkIP(name)) !== undefined;
  return server.verify(new X509Certificate(authority.certificate).publicKey) && names.every(covers);
}
