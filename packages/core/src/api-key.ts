import { createHmac } from 'node:crypto';

/**
 * The look-up key of a Secret API Key: HMAC-SHA-256 under the pepper, 64 hex characters.
 * Only this is stored, so neither the database nor a look-up's timing tells the key.
 */
export function apiKeyDigest(pepper: string, apiKey: string): string {
  return createHmac('sha256', pepper).update(apiKey).digest('hex');
}

const API_KEY = /^[0-9a-zA-Z]{32,128}$/;

/** Whether a string can be one of our keys at all; what cannot costs no look-up. */
export function isApiKeyForm(text: string): boolean {
  return API_KEY.test(text);
}
