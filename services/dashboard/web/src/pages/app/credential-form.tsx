import {
  Button,
  Checkbox,
  FileButton,
  Group,
  NativeSelect,
  PasswordInput,
  Text,
  TextInput,
} from '@mantine/core';
import { type DragEvent, useState } from 'react';
import { change } from '../../api/request.ts';
import { useChange } from '../../api/use-change.ts';
import {
  CREDENTIAL_KINDS,
  type CredentialFields,
  type CredentialKind,
  credentialBody,
  EMPTY_CREDENTIAL,
} from '../../lib/credential-body.ts';
import { readFileField } from '../../lib/read-file.ts';
import { FormDialog } from '../../parts/form-dialog.tsx';

const KINDS = Object.keys(CREDENTIAL_KINDS) as CredentialKind[];
const ENVIRONMENTS = [
  { value: '', label: 'Both' },
  { value: 'production', label: 'Production' },
  { value: 'development', label: 'Development' },
];

/** Sets a credential from a file. The server checks it before it stores it. */
export function CredentialForm({ app, onClose }: { app: string; onClose: () => void }) {
  const [kind, setKind] = useState<CredentialKind>('apns-key');
  const [fields, setFields] = useState(EMPTY_CREDENTIAL);
  const path = `/apps/${app}/credentials` as const;
  const save = useChange({
    run: () =>
      change('PUT', `${path}/${CREDENTIAL_KINDS[kind].channel}`, credentialBody(kind, fields)),
    outdated: [[path]],
    done: 'The credential is set.',
    onDone: onClose,
  });
  const needsFile = kind !== 'web-push';
  return (
    <FormDialog
      title="Set a credential"
      action="Check and store"
      isPending={save.isPending}
      isDisabled={needsFile && fields.file === undefined}
      onSubmit={save.mutate}
      onClose={onClose}
    >
      <NativeSelect
        label="Kind"
        value={kind}
        data={KINDS.map((value) => ({ value, label: CREDENTIAL_KINDS[value].label }))}
        onChange={({ currentTarget }) => {
          setKind(KINDS.find((known) => known === currentTarget.value) ?? 'apns-key');
          setFields(EMPTY_CREDENTIAL);
        }}
      />
      <FileField
        kind={kind}
        name={fields.file?.name}
        onFile={async (file) => setFields({ ...fields, file: await readFileField(file) })}
      />
      <KindFields kind={kind} fields={fields} onChange={setFields} />
    </FormDialog>
  );
}

interface FileFieldProps {
  kind: CredentialKind;
  name: string | undefined;
  onFile: (file: File) => void;
}

/** A place to drop a file, and a button that chooses one. */
function FileField({ kind, name, onFile }: FileFieldProps) {
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    const file = event.dataTransfer.files.item(0);
    if (file !== null) onFile(file);
  };
  return (
    <section
      aria-label="File"
      onDragOver={(event) => event.preventDefault()}
      onDrop={drop}
      style={{
        border: '1px dashed var(--mantine-color-dimmed)',
        borderRadius: 'var(--mantine-radius-md)',
        padding: 12,
      }}
    >
      <Group justify="space-between">
        <Text
          fz="sm"
          c={name === undefined ? 'dimmed' : 'var(--mantine-color-text)'}
          className="wrap-anywhere"
        >
          {name ??
            (kind === 'web-push' ? 'Private key as a file (optional)' : 'Drop the file here')}
        </Text>
        <FileButton
          onChange={(file) => file !== null && onFile(file)}
          accept={CREDENTIAL_KINDS[kind].accept}
        >
          {(props) => (
            <Button size="xs" variant="default" {...props}>
              Choose a file
            </Button>
          )}
        </FileButton>
      </Group>
    </section>
  );
}

interface KindFieldsProps {
  kind: CredentialKind;
  fields: CredentialFields;
  onChange: (fields: CredentialFields) => void;
}

function KindFields({ kind, fields, onChange }: KindFieldsProps) {
  const bind = (name: 'keyId' | 'teamId' | 'passphrase' | 'publicKey' | 'contact') => ({
    value: fields[name],
    onChange: ({ currentTarget }: { currentTarget: { value: string } }) =>
      onChange({ ...fields, [name]: currentTarget.value }),
  });
  if (kind === 'fcm') return null;
  if (kind === 'web-push') {
    return (
      <>
        <Text fz="sm" c="dimmed">
          Without a pair of your own the server makes one.
        </Text>
        <TextInput label="Public key" {...bind('publicKey')} />
        <TextInput
          label="Contact"
          description="A mailto: or https: address for the operators of push services"
          {...bind('contact')}
        />
        <Checkbox
          label="Replace the present pair: browsers must subscribe anew"
          checked={fields.replace}
          onChange={({ currentTarget }) => onChange({ ...fields, replace: currentTarget.checked })}
        />
      </>
    );
  }
  return (
    <>
      <NativeSelect
        label="APNs environment"
        value={fields.environment}
        data={ENVIRONMENTS}
        onChange={({ currentTarget }) => onChange({ ...fields, environment: currentTarget.value })}
      />
      {kind === 'apns-key' ? (
        <Group grow>
          <TextInput label="Key id" description="If not in the file’s name" {...bind('keyId')} />
          <TextInput label="Team id" description="10 characters" {...bind('teamId')} />
        </Group>
      ) : (
        <PasswordInput label="Passphrase" autoComplete="off" {...bind('passphrase')} />
      )}
    </>
  );
}
