import { createPrivateKey, type KeyObject } from 'node:crypto';
import { refused } from '../failure.ts';
import { type Checked, readGiven } from './checked.ts';

/** The options that a .p8 file comes with. */
export interface AppleTokenOptions {
  key: string;
  keyId?: string;
  teamId?: string;
}

const APPLE_ID = /^[0-9A-Z]{10}$/;
/** Apple names the file after the key. */
const FILE_NAME = /AuthKey_([0-9A-Z]{10})\.p8$/;

/**
 * Checks a signing key for APNs: the .p8 file with the key's and the team's id.
 *
 * @throws Failure with the reason why it can't work
 */
export function checkAppleToken(options: AppleTokenOptions): Checked {
  return appleToken(options.key, readGiven(options.key).toString('utf8'), options);
}

/** The same for a key that is read already; `path` says where it came from. @throws Failure */
export function appleToken(
  path: string,
  pem: string,
  { keyId, teamId }: Omit<AppleTokenOptions, 'key'>,
): Checked {
  const key = privateKeyOf(path, pem);
  if (key.asymmetricKeyType !== 'ec' || key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') {
    throw refused(`${path} holds no key for APNs: those are EC keys on P-256.`);
  }
  const id = keyId ?? FILE_NAME.exec(path)?.[1];
  if (id === undefined)
    throw refused('Say the key id with --key-id: Apple shows it beside the key.');
  for (const [option, value] of [
    ['--key-id', id],
    ['--team-id', teamId],
  ] as const) {
    if (value !== undefined && APPLE_ID.test(value)) continue;
    throw refused(`${option} must be the 10 characters that Apple shows, A to Z and 0 to 9.`);
  }
  return {
    channel: 'apns',
    secret: {
      kind: 'apns-token',
      key: key.export({ format: 'pem', type: 'pkcs8' }).toString(),
      keyId: id,
      teamId: teamId ?? '',
    },
    about: { kind: 'token', keyId: id, teamId: teamId ?? '' },
  };
}

function privateKeyOf(path: string, pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw refused(
      `${path} holds no private key in PEM form; a .p8 file begins with BEGIN PRIVATE KEY.`,
    );
  }
}
