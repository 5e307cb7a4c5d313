import type { Role } from '../api/types.ts';

/** Each role may do what those before it may. */
export const ROLES: readonly Role[] = ['viewer', 'operator', 'admin', 'owner'];

/** Descriptions of the roles, for those who invite. */
export const ROLE_TEXTS: Record<Role, string> = {
  viewer: 'sees everything but payloads',
  operator: 'sends, re-drives and deletes pushes, sees payloads',
  admin: 'manages apps, keys, credentials, webhooks and accounts',
  owner: 'manages operators',
};

/** Checks that a role may do what needs at least another. The server checks it too. */
export function mayActAs(role: Role, least: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(least);
}
