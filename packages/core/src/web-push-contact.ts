/** Names that nobody can own (RFC 2606, RFC 6761, RFC 6762), so no contact is behind them. */
const RESERVED = /(^|\.)(invalid|test|example|localhost|local|example\.(com|net|org))$/;
/** A domain name in lower case and ASCII; its last label has a letter first, which no address has. */
const DOMAIN = /^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])$/;
const MAIL = /^mailto:[\w.!#$%&'*+=^`{|}~-]+@([^\s@<>,?/#\\:%]+)$/;
/** Printable ASCII without angle brackets: the signature has the text as it is. */
const URL_TEXT = /^https:\/\/(?!\/)[!-;=?-~]+$/;

/** Warning for senders: their push has recipients that Apple's push service may refuse. */
export const CONTACT_WARNING = 'Web Push has no contact: Apple refuses pushes to Safari.';

/** How operators set a contact. */
export const CONTACT_HINT =
  'set WEB_PUSH_CONTACT, or the contact of the app: carillon credential web-push --app ID --contact mailto:…';

/**
 * Finds what is wrong with a sender's contact (RFC 8292, 2.1: `mailto:` or `https:`). Apple refuses the signature of a push
 * (403 BadJwtToken) whose contact has spaces, angle brackets or a name that no one can reach; other push services accept
 * it.
 *
 * @returns one sentence; undefined for a contact that push services accept
 */
export function findContactFault(contact: string): string | undefined {
  const host = readHost(contact);
  if (host === undefined) {
    return 'The contact must be mailto: with one address, or an https: URL, without spaces, < and >.';
  }
  if (DOMAIN.test(host) && !RESERVED.test(host)) return undefined;
  return `The contact must have a domain name that you own, in ASCII: push services refuse ${host}.`;
}

/**
 * Chooses the contact that an app's requests are signed with.
 *
 * @param own the app's; one that push services refuse counts as absent
 * @param ofDeployment a valid one
 * @returns undefined if there is none that push services accept
 */
export function chooseContact(
  own: string | undefined,
  ofDeployment: string | undefined,
): string | undefined {
  return own !== undefined && findContactFault(own) === undefined ? own : ofDeployment;
}

/** Returns the host in lower case without a final dot; undefined if the text is no contact. */
function readHost(contact: string): string | undefined {
  const host = URL_TEXT.test(contact) ? URL.parse(contact)?.hostname : MAIL.exec(contact)?.[1];
  return host?.toLowerCase().replace(/\.$/, '');
}
