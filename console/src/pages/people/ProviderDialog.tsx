// An identity provider: OpenID Connect or LDAP.
import { PasswordInput, SegmentedControl, Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { apiPath, send } from '../../api/lists'
import type { components } from '../../api/schema'
import { FormDialog } from '../../ui/FormDialog'
import { isTaken, splitWords } from './people'

export type Provider = components['schemas']['ProviderOut']

const OIDC_FIELDS = ['issuer', 'client_id', 'pool_url', 'groups_claim', 'name_claim'] as const
const LDAP_FIELDS = [
  'url',
  'base_dn',
  'bind_dn',
  'user_filter',
  'name_attribute',
  'subject_attribute',
  'group_base_dn',
  'group_filter',
  'group_attribute',
] as const
/** Without them the server cannot ask the provider. */
const NEEDED = new Set<string>(['issuer', 'client_id', 'url', 'base_dn'])

type Values = Record<string, string>

/** What a form shows of settings: texts alone; the rest of the settings stays as it was read. */
function readValues(settings: object | null | undefined): Values {
  const texts = Object.entries(settings ?? {}).filter(([, value]) => typeof value === 'string')
  return Object.fromEntries(texts) as Values
}

interface ProviderDialogProps {
  /** Null: a new one. */
  readonly provider: Provider | null
  /** Names of the providers that there are. */
  readonly names: readonly string[]
  onDone(): void
  onClose(): void
}

export function ProviderDialog({ provider, names, onDone, onClose }: ProviderDialogProps) {
  const { t } = useTranslation('people')
  const [kind, setKind] = useState<Provider['kind']>(provider?.kind ?? 'oidc')
  const [name, setName] = useState(provider?.name ?? '')
  const [secret, setSecret] = useState('')
  const [values, setValues] = useState<Values>(() => readValues(provider?.oidc ?? provider?.ldap))
  const [scopes, setScopes] = useState((provider?.oidc?.scopes ?? ['openid', 'profile', 'email']).join(' '))
  const fields: readonly string[] = kind === 'oidc' ? OIDC_FIELDS : LDAP_FIELDS
  const isDouble = provider === null && isTaken(name, names)
  const isFilled = name.trim() !== '' && fields.every((field) => !NEEDED.has(field) || values[field]?.trim())
  const act = () => {
    const before = kind === 'oidc' ? provider?.oidc : provider?.ldap
    const settings: Record<string, unknown> = { ...before }
    for (const field of [...fields, 'ca_certificates']) {
      const value = values[field]?.trim()
      // An empty field takes the server's own default.
      if (value) settings[field] = value
      else delete settings[field]
    }
    if (kind === 'oidc') settings.scopes = splitWords(scopes)
    return send('PUT', apiPath('sso', 'providers', name.trim()), {
      [kind]: settings,
      secret: secret === '' ? null : secret,
    })
  }
  return (
    <FormDialog
      title={provider === null ? t('newProvider') : t('changeProvider', { provider: provider.name })}
      confirm={t('saveProvider')}
      isReady={isFilled && !isDouble}
      fieldOfCode={{ 'GP-1003': 'name' }}
      wide
      act={act}
      onDone={onDone}
      onClose={onClose}
    >
      {(problem) => (
        <>
          {provider === null && (
            <>
              <SegmentedControl
                size="xs"
                aria-label={t('providerKind')}
                data={(['oidc', 'ldap'] as const).map((value) => ({ value, label: t(`provider.${value}`) }))}
                value={kind}
                onChange={(value) => setKind(value as Provider['kind'])}
              />
              <TextInput
                label={t('name')}
                value={name}
                error={isDouble ? t('providerTaken') : (problem('name') ?? problem('provider'))}
                data-autofocus
                onChange={(event) => setName(event.currentTarget.value)}
              />
            </>
          )}
          {fields.map((field) => (
            <TextInput
              key={field}
              label={t(`field.${field}`)}
              required={NEEDED.has(field)}
              value={values[field] ?? ''}
              error={problem(field)}
              onChange={(event) => setValues({ ...values, [field]: event.currentTarget.value })}
            />
          ))}
          {kind === 'oidc' && (
            <TextInput
              label={t('field.scopes')}
              value={scopes}
              error={problem('scopes')}
              onChange={(event) => setScopes(event.currentTarget.value)}
            />
          )}
          <PasswordInput
            label={t('secret')}
            description={provider?.has_secret ? t('secretStays') : undefined}
            autoComplete="off"
            value={secret}
            error={problem('secret')}
            onChange={(event) => setSecret(event.currentTarget.value)}
          />
          <Textarea
            label={t('field.ca_certificates')}
            autosize
            minRows={2}
            maxRows={6}
            value={values.ca_certificates ?? ''}
            error={problem('ca_certificates')}
            onChange={(event) => setValues({ ...values, ca_certificates: event.currentTarget.value })}
          />
        </>
      )}
    </FormDialog>
  )
}
