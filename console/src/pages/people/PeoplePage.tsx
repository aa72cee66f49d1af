// People: tenants and projects, users, tokens, sessions, and how people sign on.
import { useTranslation } from 'react-i18next'
import { useSession } from '../../app/session'
import { Page } from '../../ui/Page'
import { type PageSection, Sections } from '../../ui/Sections'
import { may } from './people'
import { Sessions } from './Sessions'
import { SignOn } from './SignOn'
import { Tenants } from './Tenants'
import { Tokens } from './Tokens'
import { Users } from './Users'

export function PeoplePage() {
  const { t } = useTranslation('people')
  const session = useSession().data
  const sections: PageSection[] = [
    { name: 'users', label: t('users'), content: () => <Users session={session} /> },
    { name: 'tenants', label: t('tenants'), content: () => <Tenants session={session} /> },
    { name: 'tokens', label: t('tokens'), content: () => <Tokens session={session} /> },
    { name: 'sessions', label: t('sessions'), content: () => <Sessions session={session} /> },
  ]
  if (may(session, 'manage-pool')) {
    sections.push({ name: 'signon', label: t('signon'), content: () => <SignOn /> })
  }
  const sentence = session && t('fact', { user: session.user, tenant: session.tenant })
  return (
    <Page title={t('title')} sentence={sentence} command="gpupool user list">
      {session && <Sections label={t('title')} sections={sections} />}
    </Page>
  )
}
