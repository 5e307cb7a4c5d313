/** Reference to a role, in the database in which it is defined. */
interface Role {
  name: string;
  db: string;
}

interface User {
  name: string;
  /** `admin` if absent. */
  db?: string;
  /** The key is `password` if absent. */
  passwordSecretRef: { name: string; key?: string };
  roles: Role[];
  scramCredentialsSecretName: string;
}

interface SecurityContext {
  allowPrivilegeEscalation: false;
  readOnlyRootFilesystem: true;
  capabilities: { drop: 'ALL'[] };
}

interface Quantities {
  cpu?: string;
  memory?: string;
}

interface Claim {
  /** The operator's names. */
  metadata: { name: 'data-volume' | 'logs-volume' };
  spec: { accessModes: 'ReadWriteOnce'[]; resources: { requests: { storage: string } } };
}

/** Fields that are merged into the StatefulSet that the operator makes; its containers are found by their names. */
interface StatefulSetSpec {
  template: {
    spec: {
      affinity?: object;
      securityContext: {
        runAsNonRoot: true;
        runAsUser: number;
        runAsGroup: number;
        fsGroup: number;
        seccompProfile: { type: 'RuntimeDefault' };
      };
      initContainers: {
        name: 'mongod-posthook' | 'mongodb-agent-readinessprobe';
        securityContext: SecurityContext;
      }[];
      containers: {
        name: 'mongod' | 'mongodb-agent';
        securityContext: SecurityContext;
        resources: { requests: Quantities; limits: Quantities };
      }[];
    };
  };
  volumeClaimTemplates: Claim[];
}

/**
 * The fields of a MongoDBCommunity that the overlays use, as MongoDB's operator for Kubernetes documents them; no package has
 * types of it. A replica set without authentication, or in which a container is not confined, does not fit.
 *
 * @public schemas.ts reads the file as text
 */
export interface IMongoDBCommunity {
  apiVersion: 'mongodbcommunity.mongodb.com/v1';
  kind: 'MongoDBCommunity';
  metadata: { name: string; namespace?: string };
  spec: {
    type: 'ReplicaSet';
    version: string;
    members: number;
    security: { authentication: { modes: ('SCRAM-SHA-256' | 'SCRAM-SHA-1')[] } };
    users: User[];
    /** Settings of mongod's configuration file, with dots. */
    additionalMongodConfig?: Record<string, string | number | boolean>;
    statefulSet: { spec: StatefulSetSpec };
  };
}
