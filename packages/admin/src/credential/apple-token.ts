import type { KeyObject } from 'node:crypto';
import { AdminError, invalidCredential } from '../admin-error.ts';
import type { CredentialFile, VerifiedCredential } from '../credentials.ts';
import { findPemBlock, readPrivateKey } from './pem.ts';

/** Ids that Apple shows next to a signing key. */
export interface AppleKeyIds {
  /** Read from the file's name when absent. */
  keyId?: string;
  teamId?: string;
}

const APPLE_ID = /^[0-9A-Z]{10}$/;
/** Name of a key file, as Apple gives it; it contains the key's id. */
const FILE_NAME = /AuthKey_([0-9A-Z]{10})\.p8$/;

/**
 * Verifies a signing key for APNs: a .p8 file with the ids of the key and the team.
 *
 * @throws AdminError INVALID_CREDENTIAL
 */
export function verifyAppleToken(
  file: CredentialFile,
  { keyId = FILE_NAME.exec(file.name)?.[1], teamId }: AppleKeyIds,
): VerifiedCredential {
  const key = parsePrivateKey(file);
  if (key.asymmetricKeyType !== 'ec' || key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') {
    throw invalidCredential(
      `${file.name} does not contain a key for APNs, which is an EC key on P-256.`,
    );
  }
  const ids = {
    keyId: parseAppleId('keyId', 'key id', keyId),
    teamId: parseAppleId('teamId', 'team id', teamId),
  };
  const pem = key.export({ format: 'pem', type: 'pkcs8' }).toString();
  return {
    channel: 'apns',
    secret: { kind: 'apns-token', key: pem, ...ids },
    about: { kind: 'token', ...ids },
  };
}

function parseAppleId(field: keyof AppleKeyIds, label: string, id: string | undefined): string {
  if (id === undefined) {
    throw invalidCredential(
      `The ${label} is missing; the Apple developer account shows it.`,
      field,
    );
  }
  if (APPLE_ID.test(id)) return id;
  throw invalidCredential(
    `The ${label} must be the 10 characters that Apple shows, A to Z and 0 to 9.`,
    field,
  );
}

function parsePrivateKey({ name, content }: CredentialFile): KeyObject {
  try {
    const block = findPemBlock(
      content.toString('utf8'),
      /-----BEGIN ((?:EC |RSA )?PRIVATE KEY)-----/,
    );
    return readPrivateKey(name, block?.pem ?? '');
  } catch (error) {
    if (error instanceof AdminError) throw error;
    throw invalidCredential(
      `${name} does not contain a private key in PEM form; a .p8 file begins with BEGIN PRIVATE KEY.`,
    );
  }
}
