//! Names of people: word lists of several cultures, and the choice from them by a person's number.
//!
//! Each list is sorted by frequency, the most common name first. A word has its original spelling. `=`
//! separates the spelling for mail addresses, if the script is not Latin or if removing accents is not
//! customary.

use std::sync::LazyLock;

use crate::random::{Key, mix};

/// Number of given names in each list.
const GIVEN: usize = 24;
/// Number of surnames of each culture.
const SURNAMES: usize = 40;

/// Number of lists of given names, each with the surnames of its culture.
const LINES: u32 = CULTURES.len() as u32 * 2;

/// Number of pairs of a given name and a surname: this many consecutive people have different names.
const PAIRS: u32 = LINES * (GIVEN * SURNAMES) as u32;

/// Namesakes: the first half of each list occurs a second time, the first quarter a third time. So with many
/// people, common names are two and three times as frequent, and their pairs up to nine times.
const GIVEN_AGAIN: usize = GIVEN / 2 + GIVEN / 4;
const SURNAMES_AGAIN: usize = SURNAMES / 2 + SURNAMES / 4;
const LINE_NAMESAKES: u32 = (GIVEN_AGAIN * (SURNAMES + SURNAMES_AGAIN) + GIVEN * SURNAMES_AGAIN) as u32;
const NAMESAKES: u32 = LINES * LINE_NAMESAKES;

/// Number of people in one round: each pair once, then the namesakes.
const ROUND: u64 = (PAIRS + NAMESAKES) as u64;

/// How a culture combines names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Custom {
    GivenFirst,
    /// Family name first.
    FamilyFirst,
    /// Family name first, without a blank.
    FamilyFirstJoined,
    /// The surname of a woman ends in а.
    RussianEnding,
}

struct Culture {
    language: &'static str,
    custom: Custom,
    women: &'static str,
    men: &'static str,
    surnames: &'static str,
}

const ENGLISH_WOMEN: &str = "Mary,Susan,Emma,Olivia,Karen,Linda,Sarah,Jessica,Emily,Laura,Megan,Grace,Alice,Rachel,\
    Chloe,Hannah,Joan,Rebecca,Ruth,Helen,Amy,Abigail,Hazel,Beth";
const ENGLISH_MEN: &str = "James,John,Robert,Michael,David,William,Thomas,Daniel,Matthew,Andrew,Mark,Steven,Paul,\
    George,Kevin,Brian,Edward,Peter,Simon,Henry,Oliver,Jack,Samuel,Neil";
const GERMAN_WOMEN: &str = "Anna,Maria,Sabine,Petra,Monika,Julia,Katharina,Claudia,Susanne,Birgit,Lena,Sophie,Heike,\
    Ursula,Jana,Franziska,Käthe=kaethe,Greta,Ingrid,Bärbel=baerbel,Johanna,Friederike,Antje,Dörte=doerte";
const GERMAN_MEN: &str = "Thomas,Michael,Andreas,Peter,Stefan,Christian,Wolfgang,Klaus,Jürgen=juergen,Markus,Uwe,Frank,\
    Matthias,Lukas,Jörg=joerg,Jonas,Sebastian,Felix,Günter=guenter,Bernd,Heinz,Karl-Heinz,Björn=bjoern,Götz=goetz";

#[rustfmt::skip]
static CULTURES: [Culture; 20] = [
    Culture { language: "en", custom: Custom::GivenFirst, women: ENGLISH_WOMEN, men: ENGLISH_MEN,
        surnames: "Smith,Johnson,Williams,Brown,Jones,Miller,Davis,Wilson,Anderson,Taylor,Moore,Jackson,White,Harris,\
            Clark,Lewis,Robinson,Walker,Hall,Allen,Wright,King,Scott,Green,Baker,Adams,Nelson,Carter,Mitchell,Roberts,\
            Turner,Phillips,Campbell,Parker,Evans,Edwards,Collins,Stewart,Morris,Rogers" },
    Culture { language: "en", custom: Custom::GivenFirst, women: ENGLISH_WOMEN, men: ENGLISH_MEN,
        surnames: "Cook,Morgan,Bell,Murphy,Bailey,Cooper,Richardson,Cox,Howard,Ward,Peterson,Gray,Watson,Brooks,Kelly,\
            Sanders,Price,Bennett,Wood,Barnes,Ross,Henderson,Coleman,Jenkins,Perry,Powell,Long,Patterson,Hughes,\
            Washington,Butler,Simmons,Foster,Bryant,Alexander,Russell,Griffin,Hayes,Myers,Ford" },
    Culture { language: "en", custom: Custom::GivenFirst, women: ENGLISH_WOMEN, men: ENGLISH_MEN,
        surnames: "O'Brien,O'Connor,McCarthy,Byrne,Walsh,O'Sullivan,Doyle,Gallagher,Kennedy,Lynch,MacDonald,Fraser,\
            Cameron,Sinclair,Munro,McKenzie,Llewellyn,Pritchard,Ap Rhys,Vaughan,Thornton,Ashworth,Whitaker,Holloway,\
            Fairchild,Winslow,Harrington,Pemberton,Blackwood,Kingsley,Smith-Jones,Hartley,Marsh,Sutton,Barrett,Fletcher,\
            Lawson,Chapman,Burgess,D'Arcy" },
    Culture { language: "de", custom: Custom::GivenFirst, women: GERMAN_WOMEN, men: GERMAN_MEN,
        surnames: "Müller=mueller,Schmidt,Schneider,Fischer,Weber,Meyer,Wagner,Becker,Schulz,Hoffmann,Schäfer=schaefer,\
            Koch,Bauer,Richter,Klein,Wolf,Schröder=schroeder,Neumann,Schwarz,Zimmermann,Braun,Krüger=krueger,Hofmann,\
            Hartmann,Lange,Schmitt,Werner,Krause,Meier,Lehmann,Huber,Mayer,Herrmann,Köhler=koehler,Walter,\
            König=koenig,Schulze,Fuchs,Kaiser,Groß=gross" },
    Culture { language: "de", custom: Custom::GivenFirst, women: GERMAN_WOMEN, men: GERMAN_MEN,
        surnames: "Vogel,Keller,Frank,Berger,Winkler,Roth,Beck,Lorenz,Baumann,Franke,Albrecht,Schuster,Simon,Ludwig,\
            Böhm=boehm,Winter,Kraus,Martin,Schumacher,Krämer=kraemer,Vogt,Stein,Jäger=jaeger,Otto,Sommer,\
            Seidel,Heinrich,Brandt,Haas,Schreiber,Graf,Dietrich,Ziegler,Kühn=kuehn,Pohl,Engel,Horn,Busch,\
            von Arnim,Süß=suess" },
    Culture { language: "fr", custom: Custom::GivenFirst,
        women: "Marie,Nathalie,Isabelle,Sylvie,Catherine,Camille,Léa,Chloé,Céline,Aurélie,Hélène,Françoise,Sandrine,\
            Élodie,Manon,Brigitte,Anne-Laure,Mathilde,Agnès,Geneviève,Inès,Lucie,Noémie,Solène",
        men: "Jean,Pierre,Michel,Philippe,Nicolas,Julien,François,Laurent,Frédéric,Sébastien,Olivier,Guillaume,Antoine,\
            Jérôme,Thierry,Jean-Luc,Étienne,Benoît,Raphaël,Mickaël,Rémi,Gaël,Loïc,Théo",
        surnames: "Bernard,Dubois,Durand,Leroy,Moreau,Laurent,Lefebvre,Roux,Fournier,Girard,Bonnet,Dupont,Lambert,\
            Fontaine,Rousseau,Vincent,Muller,Lefèvre=lefevre,Faure,André,Mercier,Blanc,Guérin,Boyer,Garnier,Chevalier,\
            Gauthier,Perrin,Masson,Marchand,Duval,Denis,Dumont,Lemaire,Noël,Dufour,Brunet,Benoît,Giraud,Beaupré" },
    Culture { language: "es", custom: Custom::GivenFirst,
        women: "Carmen,María José,Lucía,Isabel,Ana,Pilar,Cristina,Elena,Marta,Paula,Sofía,Rocío,Inés,Beatriz,Raquel,\
            Mónica,Begoña,Nuria,Concepción,Ángela,Belén,Verónica,Mercedes,Jimena",
        men: "José,Antonio,Manuel,Francisco,Juan,Javier,Carlos,Miguel,Jesús,Pedro,Alejandro,Rafael,Ángel,Fernando,Luis,\
            Pablo,Sergio,Jorge,Álvaro,Iván,Andrés,Adrián,Íñigo,Joaquín",
        surnames: "García,González,Rodríguez,Fernández,López,Martínez,Sánchez,Pérez,Gómez,Martín Ruiz,Jiménez,Hernández,\
            Díaz,Moreno,Álvarez,Muñoz,Romero,Alonso,Gutiérrez,Navarro,Torres,Domínguez,Vázquez,Gil,Serrano,Blanco,Molina,\
            Morales,Suárez,Ortega,Delgado,Castro,Ortiz,Rubio,Núñez,Medina,Garrido,Peña,de la Cruz,Ibáñez" },
    Culture { language: "it", custom: Custom::GivenFirst,
        women: "Giulia,Francesca,Chiara,Sara,Federica,Silvia,Martina,Alessia,Valentina,Giorgia,Paola,Barbara,Roberta,\
            Daniela,Simona,Ilaria,Serena,Eleonora,Lucrezia,Bianca,Caterina,Ornella,Teresa,Beatrice",
        men: "Andrea,Marco,Francesco,Alessandro,Matteo,Lorenzo,Luca,Giuseppe,Stefano,Davide,Roberto,Giovanni,Paolo,\
            Riccardo,Simone,Fabio,Massimo,Enrico,Giorgio,Claudio,Nicolò,Emanuele,Tommaso,Dario",
        surnames: "Rossi,Russo,Ferrari,Esposito,Bianchi,Romano,Colombo,Ricci,Marino,Greco,Bruno,Gallo,Conti,De Luca,\
            Mancini,Costa,Giordano,Rizzo,Lombardi,Moretti,Barbieri,Fontana,Santoro,Mariani,Rinaldi,Caruso,Ferrara,Galli,\
            Martini,Leone,Longo,Gentile,Martinelli,Vitale,Lombardo,Serra,Coppola,De Santis,D'Angelo,Marchetti" },
    Culture { language: "pt", custom: Custom::GivenFirst,
        women: "Ana,Maria,Fernanda,Juliana,Patrícia,Márcia,Adriana,Aline,Camila,Bruna,Letícia,Luciana,Vanessa,Mariana,\
            Gabriela,Sônia,Débora,Cláudia,Cecília,Inês,Conceição,Luísa,Estela,Iracema",
        men: "João,José,Antônio,Francisco,Paulo,Pedro,Lucas,Luiz,Marcos,Gabriel,Rafael,Daniel,Marcelo,Bruno,Eduardo,\
            Felipe,Rodrigo,Mateus,André,Fábio,Vinícius,Caio,Estêvão,Tomé",
        surnames: "Silva,Santos,Oliveira,Souza,Lima,Pereira,Ferreira,Almeida,Ribeiro,Carvalho,Gomes,Martins,Rocha,\
            Barbosa,Araújo,Alves,Cardoso,Nascimento,Correia,Teixeira,Moreira,Cavalcanti,Monteiro,Mendes,Freitas,Vieira,\
            Nunes,Marques,Machado,Fonseca,Gonçalves,Magalhães,Simões,Brandão,Guimarães,Pinheiro,da Costa,Azevedo,\
            Figueiredo,Conceição" },
    Culture { language: "nl", custom: Custom::GivenFirst,
        women: "Johanna,Anneke,Sanne,Lotte,Femke,Marieke,Saskia,Esther,Eline,Ingeborg,Wilma,Ellen,Marloes,Hanneke,Fleur,\
            Iris,Roos,Tess,Margriet,Loes,Mirjam,Nienke,Renée,Daniëlle",
        men: "Jan,Pieter,Johan,Willem,Kees,Bram,Daan,Sander,Jeroen,Maarten,Ruben,Thijs,Joost,Sjoerd,Bas,Hendrik,Koen,\
            Wouter,Gerrit,Dirk,Floris,Ruud,Reinier,Joël",
        surnames: "de Jong,Jansen,de Vries,van den Berg,Bakker,van Dijk,Visser,Janssen,Smit,Meijer,de Boer,Mulder,de Groot,\
            Bos,Vos,Peters,Hendriks,van Leeuwen,Dekker,Brouwer,de Wit,Dijkstra,Smits,de Graaf,van der Meer,Kok,Jacobs,\
            de Haan,Vermeulen,van der Heijden,Schouten,van Beek,Willems,van Vliet,Hoekstra,Maas,Verhoeven,Koster,\
            van Dam,Prins" },
    Culture { language: "pl", custom: Custom::GivenFirst,
        women: "Agnieszka,Katarzyna,Małgorzata,Anna,Barbara,Ewa,Magdalena,Elżbieta,Joanna,Krystyna,Monika,Zofia,Beata,\
            Dorota,Aleksandra,Jadwiga,Grażyna,Iwona,Renata,Halina,Bożena,Paulina,Żaneta,Wiesława",
        men: "Piotr,Krzysztof,Andrzej,Tomasz,Paweł,Jan,Michał,Marcin,Jakub,Adam,Marek,Łukasz,Grzegorz,Mateusz,Wojciech,\
            Dariusz,Mariusz,Zbigniew,Jerzy,Rafał,Kamil,Sławomir,Bartłomiej,Stanisław",
        surnames: "Nowak,Wójcik,Kowalczyk,Woźniak,Mazur,Krawczyk,Kaczmarek,Zając,Król,Wieczorek,Wróbel,Stępień,Pawlak,\
            Michalak,Nowicka-Duda,Adamczyk,Dudek,Sikora,Baran,Walczak,Szewczyk,Pietrzak,Marciniak,Bąk,Włodarczyk,Kubiak,\
            Lis,Mazurek,Sobczak,Czech,Kołodziej,Borkiewicz,Szymczak,Głowacz,Wasiak,Kasprzyk,Urban,Musiał,Gajda,Śliwa" },
    Culture { language: "sv", custom: Custom::GivenFirst,
        women: "Karin,Eva,Kristina,Birgitta,Annika,Maja,Elsa,Astrid,Ingrid,Linnéa,Freja,Åsa,Gunilla,Solveig,Märta,Sigrid,\
            Kerstin,Tuva,Signe,Anne-Lise,Ylva,Ragnhild,Bodil,Gry",
        men: "Lars,Anders,Erik,Johan,Karl,Per,Nils,Magnus,Mikael,Olof,Henrik,Björn,Søren,Jørgen,Håkan,Gunnar,Leif,Göran,\
            Åke,Torbjørn,Kåre,Øyvind,Pål,Mats",
        surnames: "Andersson,Johansson,Karlsson,Nilsson,Eriksson,Larsson,Olsson,Persson,Svensson,Gustafsson,Hansen,Olsen,\
            Jensen,Nielsen,Pedersen,Sørensen,Rasmussen,Jørgensen,Lindberg,Lindström,Lindgren,Berglund,Nyström,Sjöberg,\
            Holmgren,Engström,Åkesson,Öberg,Hägg,Bergström,Dahl,Haugen,Berge,Bakken,Kristoffersen,Bjerregaard,Kjær,\
            Nygård,Strøm,Ødegård" },
    Culture { language: "tr", custom: Custom::GivenFirst,
        women: "Fatma,Ayşe,Emine,Hatice,Zeynep,Elif,Meryem,Şerife,Zehra,Sultan,Hülya,Özlem,Merve,Gül,Sevgi,Esra,Büşra,\
            Gülşen,Çiğdem,Defne,Aslı,Pınar,Nilüfer,Yağmur",
        men: "Mehmet,Mustafa,Ahmet,Ali,Hüseyin,Hasan,İbrahim,Murat,Emre,Yusuf,Osman,Ömer,Kemal,Burak,Serkan,Çağlar,\
            Tolga,Barış,Gökhan,Uğur,Oğuz,Onur,Cem,Işık",
        surnames: "Yılmaz,Kaya,Demir,Şahin,Çelik,Yıldız,Yıldırım,Öztürk,Aydın,Özdemir,Arslan,Doğan,Kılıç,Aslan,Çetin,Kara,\
            Koç,Kurt,Özkan,Şimşek,Polat,Korkmaz,Çakır,Erdoğan,Güneş,Yavuz,Can,Acar,Şen,Aktaş,Güler,Yalçın,Bulut,Keskin,\
            Ünal,Turan,Gül,Özer,Işık,Tekin" },
    Culture { language: "hi", custom: Custom::GivenFirst,
        women: "Priya,Anjali,Sunita,Kavita,Neha,Pooja,Deepa,Lakshmi,Meera,Divya,Ananya,Asha,Rekha,Shreya,Swati,Lata,Nisha,\
            Padma,Radhika,Geeta,Usha,Aditi,Ishita,Sarita",
        men: "Rahul,Amit,Rajesh,Sanjay,Vijay,Suresh,Arjun,Anil,Ravi,Vikram,Ashok,Deepak,Manoj,Arun,Kiran,Nikhil,Rohit,\
            Karthik,Venkatesh,Aditya,Gopal,Harish,Mohan,Siddharth",
        surnames: "Sharma,Patel,Singh,Kumar,Gupta,Reddy,Verma,Joshi,Iyer,Nair,Mehta,Shah,Rao,Mishra,Agarwal,Chopra,Malhotra,\
            Kapoor,Banerjee,Mukherjee,Chatterjee,Das,Desai,Bhat,Kulkarni,Pillai,Menon,Saxena,Trivedi,Pandey,Tiwari,\
            Chauhan,Bose,Ghosh,Naidu,Krishnan,Subramaniam,Raghavan,Hegde,Deshpande" },
    Culture { language: "zh", custom: Custom::FamilyFirstJoined,
        women: "芳=fang,娜=na,敏=min,静=jing,丽=li,秀英=xiuying,艳=yan,娟=juan,霞=xia,桂英=guiying,婷=ting,雪=xue,\
            梅=mei,琳=lin,玉兰=yulan,欣怡=xinyi,雨桐=yutong,思涵=sihan,红=hong,慧=hui,诗雅=shiya,佳=jia,月=yue,春梅=chunmei",
        men: "伟=wei,强=qiang,磊=lei,军=jun,洋=yang,勇=yong,杰=jie,涛=tao,超=chao,明=ming,刚=gang,平=ping,凯=kai,\
            鹏=peng,浩然=haoran,建国=jianguo,志强=zhiqiang,子轩=zixuan,宇=yu,文博=wenbo,海=hai,龙=long,斌=bin,天佑=tianyou",
        surnames: "王=wang,李=li,张=zhang,刘=liu,陈=chen,杨=yang,黄=huang,赵=zhao,吴=wu,周=zhou,徐=xu,孙=sun,马=ma,朱=zhu,\
            胡=hu,郭=guo,何=he,高=gao,林=lin,罗=luo,郑=zheng,梁=liang,谢=xie,宋=song,唐=tang,许=hsu,邓=deng,韩=han,冯=feng,\
            曹=cao,彭=peng,曾=zeng,肖=xiao,田=tian,董=dong,袁=yuan,潘=pan,蔡=cai,蒋=jiang,欧阳=ouyang" },
    Culture { language: "ja", custom: Custom::FamilyFirst,
        women: "陽子=yoko,恵子=keiko,さくら=sakura,美咲=misaki,愛=ai,由美=yumi,直美=naomi,明美=akemi,裕子=yuko,久美子=kumiko,\
            葵=aoi,結衣=yui,真由美=mayumi,智子=tomoko,京子=kyoko,彩=aya,千尋=chihiro,花子=hanako,遥=haruka,舞=mai,\
            優花=yuka,凛=rin,美穂=miho,節子=setsuko",
        men: "翔太=shota,健=ken,大輔=daisuke,誠=makoto,浩=hiroshi,隆=takashi,直樹=naoki,拓也=takuya,蓮=ren,陽介=yosuke,\
            亮=ryo,一郎=ichiro,健太=kenta,和也=kazuya,聡=satoshi,大翔=hiroto,悠真=yuma,修=osamu,進=susumu,剛=tsuyoshi,\
            哲也=tetsuya,達也=tatsuya,勇気=yuki,淳=jun",
        surnames: "佐藤=sato,鈴木=suzuki,高橋=takahashi,田中=tanaka,伊藤=ito,渡辺=watanabe,山本=yamamoto,中村=nakamura,\
            小林=kobayashi,加藤=kato,吉田=yoshida,山田=yamada,佐々木=sasaki,山口=yamaguchi,松本=matsumoto,井上=inoue,\
            木村=kimura,林=hayashi,斎藤=saito,清水=shimizu,山崎=yamazaki,森=mori,池田=ikeda,橋本=hashimoto,阿部=abe,\
            石川=ishikawa,山下=yamashita,中島=nakajima,石井=ishii,小川=ogawa,前田=maeda,岡田=okada,長谷川=hasegawa,\
            藤田=fujita,後藤=goto,近藤=kondo,村上=murakami,遠藤=endo,青木=aoki,坂本=sakamoto" },
    Culture { language: "ko", custom: Custom::FamilyFirst,
        women: "Ji-woo,Seo-yeon,Min-seo,Ha-eun,Soo-jin,Eun-ji,Hye-jin,Yoon-ah,Mi-kyung,Young-hee,Ji-hye,Da-eun,Chae-won,\
            Yu-jin,Na-yeon,Bo-ra,Eun-kyung,Sun-hee,Ye-rin,Ga-young,Hyun-joo,So-hee,Mi-ran,Ah-reum",
        men: "Min-jun,Seo-jun,Ji-hoon,Do-yun,Sung-ho,Young-soo,Jae-hyun,Hyun-woo,Dong-hyun,Sang-hoon,Joon-ho,Tae-yang,\
            Kyung-soo,Seung-min,In-ho,Woo-jin,Gun-woo,Chang-min,Jin-woo,Ki-young,Byung-hun,Ho-jin,Sung-min,Yong-jae",
        surnames: "Kim,Lee,Park,Choi,Jung,Kang,Cho,Yoon,Jang,Lim,Oh,Seo,Shin,Kwon,Hwang,Ahn,Hong,Jeon,Ko,Moon,Son,Bae,Baek,\
            Heo,Yoo,Nam,Shim,Noh,Ha,Kwak,Sung,Cha,Joo,Woo,Koo,Min,Ryu,Jin,Na,Chae" },
    Culture { language: "ar", custom: Custom::GivenFirst,
        women: "Fatima,Aisha,Mariam,Layla,Noor,Zainab,Huda,Salma,Rania,Yasmin,Amal,Khadija,Sara,Lina,Hala,Dalia,Nadia,\
            Samira,Reem,Iman,Abir,Warda,Ghada,Suha",
        men: "Mohammed,Ahmed,Omar,Ali,Hassan,Yousef,Khalid,Ibrahim,Abdullah,Mahmoud,Karim,Tariq,Samir,Hamza,Bilal,Faisal,\
            Nabil,Rashid,Walid,Ziad,Jamal,Anwar,Marwan,Sami",
        surnames: "Khan,Hussein,Al-Masri,Haddad,Khoury,Al-Saadi,Farouk,Mansour,Nasser,Saleh,Aziz,El-Sayed,Rahman,Hamdan,\
            Najjar,Qasim,Al-Harbi,Ben Ali,Bouzid,Chaker,Daher,Fares,Ghanem,Habib,Issa,Jaber,Karam,Lahoud,Mourad,Naim,Odeh,\
            Rahal,Sabbagh,Shaheen,Taha,Yassin,Zidan,Al-Amin,Al-Tamimi,Bakri" },
    Culture { language: "ru", custom: Custom::RussianEnding,
        women: "Елена=yelena,Ольга=olga,Наталья=natalya,Татьяна=tatyana,Анна=anna,Ирина=irina,Светлана=svetlana,\
            Мария=maria,Екатерина=yekaterina,Людмила=lyudmila,Юлия=yulia,Дарья=darya,Анастасия=anastasia,Галина=galina,\
            Вера=vera,Полина=polina,Ксения=ksenia,Надежда=nadezhda,Алина=alina,Лариса=larisa,Зоя=zoya,Софья=sofya,\
            Жанна=zhanna,Тамара=tamara",
        men: "Александр=aleksandr,Сергей=sergey,Дмитрий=dmitry,Андрей=andrey,Алексей=aleksey,Иван=ivan,Владимир=vladimir,\
            Михаил=mikhail,Николай=nikolay,Евгений=yevgeny,Максим=maksim,Павел=pavel,Олег=oleg,Игорь=igor,Юрий=yury,\
            Виктор=viktor,Кирилл=kirill,Антон=anton,Борис=boris,Роман=roman,Глеб=gleb,Фёдор=fyodor,Артём=artyom,Лев=lev",
        surnames: "Иванов=ivanov,Смирнов=smirnov,Кузнецов=kuznetsov,Попов=popov,Васильев=vasilyev,Петров=petrov,\
            Соколов=sokolov,Михайлов=mikhaylov,Новиков=novikov,Фёдоров=fyodorov,Морозов=morozov,Волков=volkov,\
            Алексеев=alekseyev,Лебедев=lebedev,Семёнов=semyonov,Егоров=yegorov,Павлов=pavlov,Козлов=kozlov,\
            Степанов=stepanov,Николаев=nikolayev,Орлов=orlov,Андреев=andreyev,Макаров=makarov,Никитин=nikitin,\
            Захаров=zakharov,Зайцев=zaytsev,Соловьёв=solovyov,Борисов=borisov,Яковлев=yakovlev,Григорьев=grigoryev,\
            Романов=romanov,Воробьёв=vorobyov,Сергеев=sergeyev,Кузьмин=kuzmin,Фролов=frolov,Щербаков=shcherbakov,\
            Белов=belov,Комаров=komarov,Журавлёв=zhuravlyov,Жуков=zhukov" },
    Culture { language: "el", custom: Custom::GivenFirst,
        women: "Μαρία=maria,Ελένη=eleni,Κατερίνα=katerina,Βασιλική=vasiliki,Σοφία=sofia,Αγγελική=angeliki,Γεωργία=georgia,\
            Δήμητρα=dimitra,Ιωάννα=ioanna,Αναστασία=anastasia,Χριστίνα=christina,Άννα=anna,Ευαγγελία=evangelia,\
            Παναγιώτα=panagiota,Κωνσταντίνα=konstantina,Ειρήνη=irini,Δέσποινα=despina,Φωτεινή=fotini,Ζωή=zoi,\
            Αθηνά=athina,Ουρανία=ourania,Δανάη=danai,Καλλιόπη=kalliopi,Χαρά=chara",
        men: "Γιώργος=giorgos,Δημήτρης=dimitris,Κώστας=kostas,Γιάννης=giannis,Νίκος=nikos,Παναγιώτης=panagiotis,\
            Βασίλης=vasilis,Χρήστος=christos,Αθανάσιος=athanasios,Μιχάλης=michalis,Ευάγγελος=evangelos,Σπύρος=spyros,\
            Αντώνης=antonis,Θεόδωρος=theodoros,Ηλίας=ilias,Στέλιος=stelios,Πέτρος=petros,Άγγελος=angelos,\
            Αλέξανδρος=alexandros,Σταύρος=stavros,Φίλιππος=filippos,Λευτέρης=lefteris,Μάριος=marios,Οδυσσέας=odysseas",
        surnames: "Παπανδρέου=papandreou,Αλεξάνδρου=alexandrou,Χριστοδούλου=christodoulou,Παπαγεωργίου=papageorgiou,\
            Παπαϊωάννου=papaioannou,Παπακωνσταντίνου=papakonstantinou,Παπανικολάου=papanikolaou,\
            Παπαδημητρίου=papadimitriou,Γρηγορίου=grigoriou,Σωτηρίου=sotiriou,Κυριάκου=kyriakou,Φιλίππου=filippou,\
            Σπύρου=spyrou,Μιχαηλίδου=michailidou,Λάμπρου=lamprou,Δήμου=dimou,Γεωργίου=georgiou,Ιωάννου=ioannou,\
            Νικολάου=nikolaou,Παύλου=pavlou,Αντωνίου=antoniou,Κωνσταντίνου=konstantinou,Δημητρίου=dimitriou,\
            Βασιλείου=vasileiou,Αθανασίου=athanasiou,Οικονόμου=oikonomou,Χαραλάμπους=charalampous,Αναγνώστου=anagnostou,\
            Αλεξίου=alexiou,Σταύρου=stavrou,Χρήστου=christou,Ευθυμίου=efthymiou,Στεφάνου=stefanou,Πέτρου=petrou,\
            Φωτίου=fotiou,Θεοδώρου=theodorou,Μιχαήλ=michail,Παναγιώτου=panagiotou,Ανδρέου=andreou,Μάρκου=markou" },
];

/// A word in its original spelling, and its spelling in addresses: lower-case ASCII letters and hyphens.
pub(crate) struct Word {
    pub(crate) written: &'static str,
    pub(crate) plain: String,
    /// Its first letters, at most seven, for user names.
    pub(crate) short: String,
}

struct Lists {
    given: [Vec<Word>; 2],
    surnames: Vec<Word>,
}

static LISTS: LazyLock<Vec<Lists>> = LazyLock::new(|| {
    let read = |list: &'static str| -> Vec<Word> {
        list.split(',')
            .map(|word| {
                let (written, plain) = word.split_once('=').unwrap_or((word, word));
                let plain: String = plain.chars().flat_map(letters).collect();
                let short = plain.chars().filter(char::is_ascii_lowercase).take(7).collect();
                Word { written, plain, short }
            })
            .collect()
    };
    CULTURES
        .iter()
        .map(|of| Lists { given: [read(of.women), read(of.men)], surnames: read(of.surnames) })
        .collect()
});

/// The spelling of a letter in an address: in lower case, without accent. Apostrophes and blanks are omitted.
fn letters(letter: char) -> impl Iterator<Item = char> {
    let lower = letter.to_lowercase().next().unwrap_or(letter);
    let spelled: &'static str = match lower {
        'á' | 'à' | 'â' | 'ã' | 'ä' | 'å' | 'ă' | 'ą' => "a",
        'æ' => "ae",
        'ç' | 'ć' | 'č' => "c",
        'é' | 'è' | 'ê' | 'ë' | 'ę' | 'ě' => "e",
        'ğ' => "g",
        'í' | 'ì' | 'î' | 'ï' | 'ı' => "i",
        'ł' => "l",
        'ñ' | 'ń' | 'ň' => "n",
        'ó' | 'ò' | 'ô' | 'õ' | 'ö' | 'ø' => "o",
        'ś' | 'š' | 'ş' => "s",
        'ú' | 'ù' | 'û' | 'ü' => "u",
        'ý' => "y",
        'ź' | 'ż' | 'ž' => "z",
        _ => "",
    };
    let own = (lower.is_ascii_lowercase() || lower == '-').then_some(lower);
    spelled.chars().chain(own)
}

/// The name of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    culture: u8,
    /// 0 is the list for women, 1 the list for men.
    list: u8,
    given: u8,
    pub(crate) surname: u8,
    /// Distinguishes people with the same name: the first one has 0, and all numbers differ.
    pub(crate) number: u64,
}

impl Name {
    /// The name of person `index` at birth. Names are drawn without replacement, so a name with its number
    /// belongs to one person only.
    pub(crate) fn of(key: Key, index: u64) -> Name {
        let (round, place) = (index / ROUND, (index % ROUND) as u32);
        let key = key.draw(round);
        let (line, given, surname) = if place < PAIRS {
            let drawn = shuffled(key, place, PAIRS);
            let pair = drawn as usize / LINES as usize;
            (drawn % LINES, pair / SURNAMES, pair % SURNAMES)
        } else {
            let drawn = shuffled(key, place - PAIRS, NAMESAKES);
            let (given, surname) = namesake(drawn as usize / LINES as usize);
            (drawn % LINES, given, surname)
        };
        let ((given, given_again), (surname, surname_again)) =
            (word_of(given, GIVEN), word_of(surname, SURNAMES));
        Name {
            culture: (line / 2) as u8,
            list: (line % 2) as u8,
            given: given as u8,
            surname: surname as u8,
            number: round * 9 + given_again * 3 + surname_again,
        }
    }

    /// The same person with another surname of the same culture.
    pub(crate) fn renamed(self, draw: u64) -> Name {
        Name { surname: other(u64::from(self.surname), SURNAMES as u64, draw) as u8, ..self }
    }

    pub(crate) fn given(&self) -> &'static Word {
        &LISTS[usize::from(self.culture)].given[usize::from(self.list)][usize::from(self.given)]
    }

    pub(crate) fn surname(&self) -> &'static Word {
        &LISTS[usize::from(self.culture)].surnames[usize::from(self.surname)]
    }

    /// The suffix of the surname, as written and in addresses.
    pub(crate) fn ending(&self) -> (&'static str, &'static str) {
        match (self.custom(), self.list) {
            (Custom::RussianEnding, 0) => ("а", "a"),
            _ => ("", ""),
        }
    }

    pub(crate) fn is_woman(&self) -> bool {
        self.list == 0
    }

    pub(crate) fn family_first(&self) -> bool {
        matches!(self.custom(), Custom::FamilyFirst | Custom::FamilyFirstJoined)
    }

    /// The text between the two names.
    pub(crate) fn between(&self) -> &'static str {
        if self.custom() == Custom::FamilyFirstJoined { "" } else { " " }
    }

    /// The preferred language, as in RFC 5646.
    pub(crate) fn language(&self) -> &'static str {
        CULTURES[usize::from(self.culture)].language
    }

    fn custom(&self) -> Custom {
        CULTURES[usize::from(self.culture)].custom
    }
}

/// One of `count` numbers that differs from `now`.
pub(crate) fn other(now: u64, count: u64, draw: u64) -> u64 {
    if count < 2 { now } else { (now + 1 + draw % (count - 1)) % count }
}

/// The indexes of the two names of a repeated pair: at least one is beyond the end of its list.
fn namesake(number: usize) -> (usize, usize) {
    const WITH_GIVEN_AGAIN: usize = GIVEN_AGAIN * (SURNAMES + SURNAMES_AGAIN);
    match number.checked_sub(WITH_GIVEN_AGAIN) {
        None => (GIVEN + number / (SURNAMES + SURNAMES_AGAIN), number % (SURNAMES + SURNAMES_AGAIN)),
        Some(number) => (number / SURNAMES_AGAIN, SURNAMES + number % SURNAMES_AGAIN),
    }
}

/// The word at an index of a list of `words` that is followed by its first half and its first quarter, and
/// the number of its earlier occurrences.
fn word_of(place: usize, words: usize) -> (usize, u64) {
    if place < words {
        (place, 0)
    } else if place < words + words / 2 {
        (place - words, 1)
    } else {
        (place - words - words / 2, 2)
    }
}

/// A permutation of the numbers below `count`, selected by `key`. Invertible steps on numbers with the same
/// bits are repeated until the result is below `count`, which is at least 4.
fn shuffled(key: u64, number: u32, count: u32) -> u32 {
    let bits = count.next_power_of_two().trailing_zeros();
    let mask = (1 << bits) - 1;
    let mut x = number;
    loop {
        for add in [key as u32, (key >> 32) as u32, mix(key) as u32] {
            x = x.wrapping_add(add).wrapping_mul(0x9e37_79b1) & mask;
            x ^= x >> (bits / 2);
        }
        x = x.wrapping_mul(0x85eb_ca6b) & mask;
        x ^= x >> (bits / 2 + 1);
        if x < count {
            return x;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn every_list_has_its_length_and_its_letters() {
        for (culture, lists) in CULTURES.iter().zip(LISTS.iter()) {
            for (what, list, length) in [
                ("women", &lists.given[0], GIVEN),
                ("men", &lists.given[1], GIVEN),
                ("surnames", &lists.surnames, SURNAMES),
            ] {
                assert_eq!(list.len(), length, "{} {what} {}", culture.language, list[0].written);
                for word in list {
                    let plain = word.plain.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                    assert!(plain && !word.plain.is_empty(), "{} is {}", word.written, word.plain);
                    // A letter without a known ASCII spelling would be lost.
                    let marks = |c: &char| !matches!(c, ' ' | '\'');
                    if word.written.is_ascii() {
                        assert_eq!(
                            word.plain.len(),
                            word.written.chars().filter(marks).count(),
                            "{}",
                            word.plain
                        );
                    }
                    assert!(
                        !word.written.contains(['"', ',', '\\', '\n']) && word.written.trim() == word.written
                    );
                }
            }
        }
    }

    #[test]
    fn no_letter_is_lost_in_folding() {
        for lists in LISTS.iter() {
            for word in lists.given.iter().flatten().chain(&lists.surnames) {
                for letter in word.written.chars().filter(|c| c.is_alphabetic() && (*c as u32) < 0x250) {
                    let spelled = letters(letter).count() > 0;
                    assert!(spelled || word.written.contains('ß'), "{letter} of {}", word.written);
                }
            }
        }
    }

    /// Words with the same spelling in addresses must be equal, otherwise the numbers would not distinguish
    /// people.
    #[test]
    fn what_is_spelled_alike_is_one_word() {
        let mut surnames = BTreeMap::new();
        for (culture, lists) in CULTURES.iter().zip(LISTS.iter()) {
            for word in &lists.surnames {
                let before = surnames.insert(word.plain.clone(), word.written);
                assert_eq!(before, None, "{} of {}", word.written, culture.language);
                if culture.custom == Custom::RussianEnding {
                    let before = surnames.insert(format!("{}a", word.plain), word.written);
                    assert_eq!(before, None, "{}а", word.written);
                }
            }
            let mut given = BTreeSet::new();
            for word in lists.given.iter().flatten() {
                assert!(given.insert(&word.plain), "{} of {}", word.written, culture.language);
            }
        }
    }

    #[test]
    fn shuffling_is_a_permutation() {
        for key in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            for count in [7, PAIRS, NAMESAKES] {
                let mut seen = vec![false; count as usize];
                for number in 0..count {
                    let to = shuffled(key, number, count) as usize;
                    assert!(!seen[to], "{number} of {count} and another both become {to}");
                    seen[to] = true;
                }
            }
        }
    }

    #[test]
    fn a_round_holds_each_pair_as_often_as_its_words_are_common() {
        let mut given = [0; GIVEN];
        let mut of_commonest = 0;
        let mut numbers = BTreeSet::new();
        for index in 0..ROUND {
            let name = Name::of(Key::new(1, 1), index);
            given[usize::from(name.given)] += 1;
            of_commonest += u32::from((name.culture, name.list, name.given, name.surname) == (3, 0, 0, 0));
            assert_eq!(name.number == 0, index < u64::from(PAIRS), "the first of each pair come first");
            assert!(numbers.insert((name.culture, name.list, name.given, name.surname, name.number)));
        }
        assert_eq!(of_commonest, 9);
        let once = given[GIVEN - 1];
        assert!(given[..GIVEN / 4].iter().all(|count| *count == 3 * once));
        assert!(given[GIVEN / 4..GIVEN / 2].iter().all(|count| *count == 2 * once));
        assert!(given[GIVEN / 2..].iter().all(|count| *count == once));
    }

    #[test]
    fn another_is_never_the_same() {
        for count in 2..6 {
            for now in 0..count {
                assert!(
                    (0..20).all(|draw| other(now, count, draw) != now && other(now, count, draw) < count)
                );
            }
        }
    }
}
