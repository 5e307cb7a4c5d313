/**
 * Words that common passwords are made of, in lower case: a password is refused if it has one of them and no other
 * letter. Texts of keys in a row and usual spellings with digits and signs count as words.
 */
export const COMMON_WORDS: readonly string[] = `
carillon c@rillon carill0n push console dashboard notification notifications password passwort passw0rd p4ssw0rd p4ssword pa55word pa55w0rd p@ssword p@ssw0rd pa$$word
pa$$w0rd pass passphrase motdepasse contrasena contraseña senha haslo heslo parola salasana wachtwoord kennwort
lozinka kodeord adgangskode parole sifre secret geheim secreto segreto admin adm1n administrator administrateur
administrador sysadmin superadmin superuser root r00t toor user username operator owner viewer guest test tester
testing demo default login logon signin access changeme changeit change letmein welcome w3lcome welkom willkommen
bienvenue bienvenido master manager service server system support office company business internet computer network
database redis mongodb mongo docker kubernetes linux windows ubuntu debian oracle cisco google facebook apple
microsoft amazon github android samsung qwerty qwertz azerty qwertyuiop qwertzuiop azertyuiop qwert asdf asdfgh
asdfghjkl zxcv zxcvbn zxcvbnm yxcvbnm qwe asd zxc qaz wsx edc rfv tgb qazwsx qazwsxedc poiuytrewq lkjhgfdsa mnbvcxz
dvorak abc abcd abcde abcdef abcdefg abcdefgh abcdefghij abcdefghijkl abcdefghijklm abcdefghijklmn
abcdefghijklmnopqrstuvwxyz zyxwvutsrqponmlkjihgfedcba zyxwvutsrqpo aabbcc aaabbbccc xyz foo bar baz foobar foobarbaz
lorem ipsum loremipsum iloveyou ilove loveyou love lovely lover loveme iloveme iloveu ihateyou fuckyou fuckoff fuck
shit asshole bitch sexy jesus jesuschrist christ god lord angel devil heaven blessed faith monkey dragon tiger lion
eagle falcon panther cobra shark wolf bear cat dog puppy kitty horse dolphin butterfly sunshine princess prince queen
king kingdom flower rainbow summer winter autumn spring sommer herbst fruehling printemps verano january february march april may june july august september
october november december monday tuesday wednesday thursday friday saturday sunday football baseball basketball hockey
soccer tennis golf swimming liverpool chelsea arsenal barcelona realmadrid manchester united juventus yankees cowboys
steelers lakers eagles superman batman spiderman ironman pokemon naruto starwars startrek matrix gandalf hobbit
harrypotter potter minecraft shadow ninja killer hunter hunter2 warrior soldier ranger pirate wizard legend thunder
lightning storm phoenix michael michelle jennifer jessica jordan daniel david robert thomas charlie george ashley
nicole andrew anthony joshua matthew william james john maria anna peter martin alexander alexandra victoria samantha
elizabeth christopher jonathan chocolate cookie banana orange cheese pepper ginger coffee whisky vodka pizza london
paris berlin madrid newyork america canada germany france england australia brazil mexico india china japan russia
hello helloworld world goodbye trustno1 trustnoone nothing whatever forever freedom happy smile money dollar diamond
silver golden mercedes ferrari porsche mustang corvette harley yamaha honda toyota blink182 metallica nirvana slipknot
eminem mypassword mysecret mynameis the this new newpassword temp temporary tempo initial first last one two three
four five six seven eight nine zero start begin open opensesame sesame abracadabra unknown anonymous
`
  .trim()
  .split(/\s+/);

/** Common passwords of 12 characters and more that are none of {@link COMMON_WORDS} with signs, in lower case. */
export const COMMON_PASSWORDS: ReadonlySet<string> = new Set(
  `
123456789012 1234567890123 12345678901234 123456789012345 1234567890123456 12345678901234567890 0123456789012
012345678901 01234567890123456789 1234567890-= 1234567890987654321 12345678987654321 123456787654321 123456654321
123456789987654321 1234567890123456789 098765432109 0987654321098 987654321012 9876543210987 987654321098 987654321000
112233445566 11223344556677 1122334455667788 112233445566778899 11223344556677889900 001122334455 00112233445566
00112233445566778899 998877665544 99887766554433221100 111222333444 111222333444555 111222333444555666 123123456456
123321123321 123454321234 123456123456 147258369147 147258369000 147258369963 159357258456 159753159753 159753456852
147852369147 741852963741 789456123000 789456123789 123789456123 135792468013 246813579024 102030405060 10203040506070
101112131415 121314151617 314159265358 3141592653589 31415926535897 271828182845 161803398874 141421356237
112358132134 112358132134558 248163264128 235711131719 2357111317192329 000000000001 100000000000 200000000000
1q2w3e4r5t6y 1q2w3e4r5t6y7u 1q2w3e4r5t6y7u8i 1q2w3e4r5t6y7u8i9o 1q2w3e4r5t6y7u8i9o0p q1w2e3r4t5y6 q1w2e3r4t5y6u7i8
1qaz2wsx3edc 1qaz2wsx3edc4rfv 1qaz2wsx3edc4rfv5tgb 1qaz@wsx3edc 1qaz@wsx#edc !qaz2wsx3edc !qaz@wsx#edc !qaz@wsx3edc
zaq12wsxcde3 zaq1xsw2cde3 zaq1xsw2cde3vfr4 zaq!xsw2cde# xsw2zaq1cde3 qaz123wsx456 qazwsx123456 qazxswedcvfr
qazxswedcvfrtgb 1234qwerasdf 1234qwerasdfzxcv qwer1234asdf qwerasdfzxcv qwerasdfzxcv1234 qwertyasdfgh
qwertyasdfghzxcvbn asdfqwer1234 asdfghjkl123 asdfghjkl;'\\ qwertyuiop[] qwertyuiop[]\\ qwertyuiopas qwertyuiopasdf
qwertyuiopasdfgh qwertyuiopasdfghjkl qwertyuiopasdfghjklzxcvbnm 1a2b3c4d5e6f a1b2c3d4e5f6 a1b2c3d4e5f6g7
a1b2c3d4e5f6g7h8 1a2s3d4f5g6h 1z2x3c4v5b6n a1s2d3f4g5h6 z1x2c3v4b5n6 abc123def456 abcd1234efgh abcd1234abcd
123abc456def 12qwaszx12qw 12qwaszx34er 12qw34er56ty qweasdzxc123 123qweasdzxc 123qweasdzxcvbn 147qazwsxedc
rfvtgbyhnujm ujmyhntgbrfv plokijuhygtf poiuytrewqas mnbvcxzlkjhg mnbvcxzasdfg zxcvbnmasdfg zxcvbnm,./12 zxcvbnm,./zx
!@#$%^&*()_+ !@#$%^&*()12 !@#$%^&*()qwerty 1!2@3#4$5%6^ !1@2#3$4%5^6 p0o9i8u7y6t5 0p9o8i7u6y5t mju76yhnbgt5
vfr4cde3xsw2 cde3xsw2zaq1 3edcvfr45tgb nhy65tgbvfr4 tobeornottobe thequickbrownfox thequickbrown
thequickbrownfoxjumpsoverthelazydog maytheforcebewithyou correcthorsebatterystaple itsasecret123 itsasecret12
donttellanyone nopasswordhere thisismypassword thisisapassword enteryourpassword entrezmotdepasse forgotpassword
rememberme12 rememberthis keepitsecret ineedapassword whatismypassword guessmypassword idontknow123 idontremember
ilovemyfamily ilovemymother iloveyousomuch iloveyou4ever iloveyouforever godisgood123 godislove123 jesuslovesme
inthebeginning onceuponatime startrekvoyager lordoftherings gameofthrones winteriscoming theempirestrikesback
nevergonnagiveyouup letmeinplease pleaseletmein openthedoor12 welcomehome12 welcometothe00 goodmorning12 goodluck1234
happybirthday happybirthday1 merrychristmas happynewyear happynewyear1 rockandroll12 rocknroll123 rollingstones
pinkfloyd123 ledzeppelin1 guitarhero12 counterstrike worldofwarcraft callofduty123 grandtheftauto playstation3
playstation4 playstation123 finalfantasy7 finalfantasy supermario12 supermario64 pikachu12345 pokemonmaster
`
    .trim()
    .split(/\s+/),
);
