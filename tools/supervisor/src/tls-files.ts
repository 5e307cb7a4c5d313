import { hostname, networkInterfaces } from 'node:os';
import { ensureServerCertificate } from '@carillon/runtime/certificate-files';
import { createWriteError, type DataDir } from './data-dir.ts';

const RENEWAL_CHECK_INTERVAL_MS = 3_600_000;

/** Paths of the TLS files, all PEM. */
export interface TlsFiles {
  ca: string;
  certificate: string;
  key: string;
}

/**
 * Ensures that the stack has its own certificate authority and a server certificate for its addresses.
 *
 * @param host the address that the stack listens on
 */
export async function ensureTlsFiles(dataDir: DataDir, host: string): Promise<TlsFiles> {
  const folder = dataDir.resolvePath('tls');
  try {
    await ensureServerCertificate(folder, listServerNames(host));
  } catch (error) {
    throw (error as NodeJS.ErrnoException).syscall ? createWriteError(folder, error) : error;
  }
  return {
    ca: dataDir.resolvePath('tls/ca.pem'),
    certificate: dataDir.resolvePath('tls/server.pem'),
    key: dataDir.resolvePath('tls/server-key.pem'),
  };
}

/** Renews the files of a long-running stack every hour; the gateways reload changed files. @returns stops it */
export function startTlsRenewal(
  dataDir: DataDir,
  host: string,
  print: (line: string) => void,
): () => void {
  const timer = setInterval(() => {
    ensureTlsFiles(dataDir, host).catch((error: unknown) =>
      print(`The TLS certificate could not be renewed: ${(error as Error).message}`),
    );
  }, RENEWAL_CHECK_INTERVAL_MS);
  return () => clearInterval(timer);
}

/** Lists the names and addresses of a server that listens on `host`; for a wildcard, all of the machine's. */
function listServerNames(host: string): string[] {
  const isWildcard = host === '0.0.0.0' || host === '::';
  const interfaces = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  // Link-local addresses have a zone, which a certificate can't contain.
  const addresses = interfaces.map(({ address }) => address).filter((one) => !/%|^fe80/.test(one));
  const hostNames = isWildcard ? [hostname(), ...addresses] : [host];
  return [...new Set(['localhost', '127.0.0.1', '::1', ...hostNames])];
}
