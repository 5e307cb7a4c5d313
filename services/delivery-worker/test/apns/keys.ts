import { generateKeyPairSync } from 'node:crypto';

/** Creates a private key, PEM; those of Apple are of P-256. */
export function createKey(namedCurve = 'P-256'): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}
