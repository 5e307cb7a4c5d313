import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type KeyPair,
  makeAuthority,
  makeServerCertificate,
} from '../../supervisor/src/certificates.ts';

/** A certificate authority of a test's own, and the files of a server's certificate. */
export interface CertificateFiles {
  /** PEM. */
  ca: string;
  certFile: string;
  keyFile: string;
  /** Writes a new certificate and its key over the ones before. */
  renew(): Promise<void>;
  remove(): Promise<void>;
}

export async function makeCertificateFiles(): Promise<CertificateFiles> {
  const folder = await mkdtemp(join(tmpdir(), 'carillon-test-'));
  const certFile = join(folder, 'server.pem');
  const keyFile = join(folder, 'server-key.pem');
  const authority: KeyPair = await makeAuthority(2);

  async function renew(): Promise<void> {
    const pair = await makeServerCertificate(authority, ['127.0.0.1', 'localhost'], 1);
    await writeFile(keyFile, pair.key);
    await writeFile(certFile, pair.certificate);
  }

  await renew();
  return {
    ca: authority.certificate,
    certFile,
    keyFile,
    renew,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
