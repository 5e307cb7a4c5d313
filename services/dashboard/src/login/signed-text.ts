import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * Creates a signer of texts that browsers keep for the console, so that no process has to store them.
 *
 * @param secret secret that all processes of the console share
 * @param purpose keeps the texts of one use from being accepted for another
 */
export function createTextSigner(secret: string, purpose: string) {
  const key = createHmac('sha256', secret).update(`console ${purpose}`).digest();
  const tagOf = (encoded: string): Buffer => createHmac('sha256', key).update(encoded).digest();
  return {
    sign(text: string): string {
      const encoded = Buffer.from(text).toString('base64url');
      return `${encoded}.${tagOf(encoded).toString('base64url')}`;
    },
    /** Returns a signed text; undefined if the signature is wrong. */
    verify(signed: string | undefined): string | undefined {
      const [encoded = '', tag = ''] = signed?.split('.') ?? [];
      const expected = tagOf(encoded);
      const actual = Buffer.from(tag, 'base64url');
      if (actual.length !== expected.length || !timingSafeEqual(actual, expected)) return undefined;
      return Buffer.from(encoded, 'base64url').toString();
    },
  };
}
