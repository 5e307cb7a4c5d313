import { createECDH, randomBytes } from 'node:crypto';

/** Returns the fields that an iOS device registers with; `pushToken` is new each time. */
export function appleAddress() {
  return {
    pushToken: randomBytes(32).toString('hex'),
    pushEnvironment: 'production',
    pushBundle: 'com.example.app',
  };
}

/** A browser's subscription with real keys, as the web SDK sends it. */
export function webSubscription(
  endpoint = `https://fcm.googleapis.com/fcm/send/${randomBytes(12).toString('hex')}`,
) {
  const keys = createECDH('prime256v1');
  return {
    endpoint,
    key: keys.generateKeys('base64'),
    auth: randomBytes(16).toString('base64'),
  };
}
