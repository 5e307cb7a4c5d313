import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type KeyPair, makeAuthority, makeServerCertificate } from '@carillon/runtime/certificates';

/** A certificate authority for one test, and the files of a server certificate. */
export type CertificateFiles = Awaited<ReturnType<typeof makeCertificateFiles>>;

export async function makeCertificateFiles() {
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
    /** PEM. */
    ca: authority.certificate,
    certFile,
    keyFile,
    /** Replaces the certificate and its key by new ones. */
    renew,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
