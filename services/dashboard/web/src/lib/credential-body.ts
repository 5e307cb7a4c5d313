import type { FileField } from './read-file.ts';

export type CredentialKind = 'apns-key' | 'apns-certificate' | 'fcm' | 'web-push';

/** The form of a credential, as its inputs hold it. */
export interface CredentialFields {
  file: FileField | undefined;
  environment: string;
  keyId: string;
  teamId: string;
  passphrase: string;
  publicKey: string;
  contact: string;
  replace: boolean;
}

export const EMPTY_CREDENTIAL: CredentialFields = {
  file: undefined,
  environment: '',
  keyId: '',
  teamId: '',
  passphrase: '',
  publicKey: '',
  contact: '',
  replace: false,
};

/** Label and channel of each kind of credential, and the field and suffixes of its file. */
export const CREDENTIAL_KINDS = {
  'apns-key': { label: 'APNs: token key (.p8)', channel: 'apns', field: 'key', accept: '.p8' },
  'apns-certificate': {
    label: 'APNs: certificate (.p12, .pem)',
    channel: 'apns',
    field: 'certificate',
    accept: '.p12,.pem',
  },
  fcm: {
    label: 'FCM: service account (.json)',
    channel: 'fcm',
    field: 'serviceAccount',
    accept: '.json',
  },
  'web-push': {
    label: 'Web Push: VAPID keys',
    channel: 'web-push',
    field: 'privateKey',
    accept: '',
  },
} as const;

/** Makes the body of a credential. Empty fields are left out. */
export function credentialBody(
  kind: CredentialKind,
  fields: CredentialFields,
): Record<string, unknown> {
  const { file, environment, keyId, teamId, passphrase, publicKey, contact, replace } = fields;
  const apple = { environment };
  const texts = {
    'apns-key': { ...apple, keyId, teamId },
    'apns-certificate': { ...apple, passphrase },
    fcm: {},
    'web-push': { publicKey, contact },
  }[kind];
  const given = Object.entries(texts).filter(([, text]) => text.trim() !== '');
  return {
    ...Object.fromEntries(given),
    ...(file !== undefined && { [CREDENTIAL_KINDS[kind].field]: file }),
    ...(kind === 'web-push' && replace && { replace }),
  };
}
