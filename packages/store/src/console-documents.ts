import type { Binary } from 'mongodb';

/** Role of an operator, weakest first. */
export type OperatorRole = 'viewer' | 'operator' | 'admin' | 'owner';

/** Accounts that an operator may see: all of the installation, or those with these ids. */
export type OperatorAccounts = readonly string[] | 'all';

/** A person who uses the console. */
export interface OperatorDocument {
  _id: string;
  name: string;
  /** The name in lower case, by which a login finds the operator. */
  nameKey: string;
  role: OperatorRole;
  accounts: OperatorAccounts;
  /** Hash of the password in PHC format; absent for operators of an OpenID provider. */
  passwordHash?: string;
  /** Identity at an OpenID provider: `issuer subject`. */
  openId?: string;
  /** Marks the operator of the set-up link; a unique index allows one. */
  first?: true;
  disabledAt?: Date;
  createdAt: Date;
  lastLoginAt?: Date;
}

/** A login of an operator. */
export interface SessionDocument {
  /** SHA-256 of the token in the cookie. */
  _id: Binary;
  operator: string;
  createdAt: Date;
  /** Last use, written at most once a minute. The session ends 12 h after it. */
  seenAt: Date;
  /** End of the session, however much it is used. */
  expiresAt: Date;
}

/** Kind of a one-time link: it creates the first operator or a further one, or sets a new password. */
export type InviteKind = 'setup' | 'invite' | 'reset';

/** A link that works once. */
export interface InviteDocument {
  /** SHA-256 of the token in the link. */
  _id: Binary;
  /** Names the link in lists and in the audit log. */
  id: string;
  kind: InviteKind;
  role: OperatorRole;
  accounts: OperatorAccounts;
  /** The operator whose password a link of kind `reset` sets. */
  operator?: string;
  /** The operator who has made the link, which ends with its access; absent for links of the command line. */
  by?: string;
  /** Marks the link as used. */
  redeemedAt?: Date;
  expiresAt: Date;
}

/** A token with which a program uses the console's routes. */
export interface OperatorTokenDocument {
  _id: string;
  /** SHA-256 of the token's text. */
  digest: Binary;
  name: string;
  role: OperatorRole;
  accounts: OperatorAccounts;
  /** The operator who has made the token, which ends with its access; absent for tokens of the command line. */
  by?: string;
  createdAt: Date;
  expiresAt: Date;
  /** Last use, written at most once a minute. */
  lastUsedAt?: Date;
}

/** Facts of an audit entry: ids, names and settings, never secrets, payloads or tokens. */
export type AuditFacts = Record<string, string | number | boolean>;

/** An entry of the audit log: an action that an operator began, or its result. */
export interface AuditDocument {
  /** Sorts by time. */
  _id: string;
  at: Date;
  actor: { id: string; name: string };
  action: string;
  /** Account of the object, if it has one. */
  account?: string;
  facts: AuditFacts;
  /** The client's address. */
  address: string;
  requestId: string;
  /** The entry whose end this one records. */
  of?: string;
  /** `done`, or the code of the error. */
  result?: string;
}
