import type { SandboxCredentials } from './sandbox.ts';

/** Private key of the pair for browsers that every tenant of a provider fixture has. */
const WEB_PUSH_PRIVATE_KEY = 'f67HL8PKb6W0s_Wxbg1uvkqPC6xdRRNH1IIVm_j0tmA';

/** Lists pieces of the providers' secrets that nothing else contains: the lines in the middle of each private key. */
export function listSecretParts({ apns, fcm }: SandboxCredentials): string[] {
  const pems = [apns.key, apns.certificateKey, fcm.serviceAccount.private_key];
  const lines = pems.flatMap((pem) => pem.trim().split('\n').slice(1, -1));
  return [...lines.filter((line) => line.length > 20), WEB_PUSH_PRIVATE_KEY];
}
