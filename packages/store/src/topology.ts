import type { Db, Document } from 'mongodb';

/** A member of a replica set, as its primary sees it. */
export interface MongoMember {
  /** host:port. */
  name: string;
  /** MongoDB's name of its state, for instance `PRIMARY` or `(not reachable/healthy)`. */
  state: string;
  /** Seconds by which its data is older than the primary's; undefined for a member without data. */
  lagSeconds?: number;
}

/** The servers behind a connection string. */
export type MongoTopology =
  | { kind: 'server' }
  | { kind: 'mongos' }
  | {
      kind: 'replica set';
      name: string;
      size: number;
      /** Undefined where the user may not read it: that takes the role `clusterMonitor`. */
      members?: MongoMember[];
    };

/** Reads the list of servers, by `hello` and, in a replica set, `replSetGetStatus`. */
export async function readTopology(db: Db): Promise<MongoTopology> {
  const admin = db.client.db('admin');
  const hello = await admin.command({ hello: 1 });
  if (hello.msg === 'isdbgrid') return { kind: 'mongos' };
  if (typeof hello.setName !== 'string') return { kind: 'server' };
  const size = [hello.hosts, hello.passives, hello.arbiters].flatMap((list) => list ?? []).length;
  // Not granted, or not available, as with some hosted services.
  const status = await admin.command({ replSetGetStatus: 1 }).catch(() => undefined);
  return {
    ...{ kind: 'replica set', name: hello.setName, size },
    ...(status && { members: toMembers(status.members) }),
  };
}

function toMembers(members: readonly Document[]): MongoMember[] {
  const timeOf = ({ optimeDate }: Document): number | undefined => optimeDate?.getTime();
  const primary = members.find(({ stateStr }) => stateStr === 'PRIMARY');
  const newest = primary && timeOf(primary);
  return members.map((member) => {
    const at = timeOf(member);
    const { name, stateStr: state } = member;
    if (newest === undefined || at === undefined) return { name, state };
    return { name, state, lagSeconds: Math.max(0, (newest - at) / 1_000) };
  });
}
